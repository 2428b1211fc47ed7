package hookline_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strings"
	"time"

	hookline "github.com/hookline/hookline-go"
)

// stand stands in for a service that accepts everything.
type stand struct{}

func (stand) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(`{"success":true}`)), Request: r}, nil
}

func newClient() *hookline.Client {
	client, err := hookline.NewWithOptions("WRITE_KEY", hookline.Options{Transport: stand{}})
	if err != nil {
		panic(err)
	}
	return client
}

func Example() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"success":true}`) }))
	defer service.Close()

	client := hookline.New("WRITE_KEY")
	client.Endpoint = service.URL // such as https://events.example.com
	defer client.Close()

	_ = client.Identify(&hookline.Identify{UserId: "u1", Traits: hookline.Traits{"plan": "pro"}})
	_ = client.Track(&hookline.Track{UserId: "u1", Event: "Order Completed", Properties: hookline.Properties{"total": 12.5}})
	fmt.Println(client.Flush().Accepted, "events on the service's disk")
	// Output: 2 events on the service's disk
}

func ExampleNew() {
	client := hookline.New("WRITE_KEY")
	client.Endpoint = "https://events.example.com"
	client.FlushAt = 50
	client.FlushAfter = time.Second
	client.Logger = slog.Default()
	fmt.Println(client.Close())
	// Output: <nil>
}

func ExampleNewWithOptions() {
	_, err := hookline.NewWithOptions("WRITE_KEY", hookline.Options{BatchSize: 5000})
	fmt.Println(err)
	// Output: hookline: invalid_option: batch_size must be a number from 1 to 2500, not 5000
}

func ExampleClient_Identify() {
	client := newClient()
	defer client.Close()
	err := client.Identify(&hookline.Identify{UserId: "u1", AnonymousId: "a1", Traits: hookline.Traits{"email": "ada@example.com"}})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleClient_Track() {
	client := newClient()
	defer client.Close()
	err := client.Track(&hookline.Track{
		UserId:       "u1",
		Event:        "Order Completed",
		Properties:   hookline.Properties{"total": 12.5},
		Timestamp:    "2025-11-20T07:00:00Z", // to import the past
		Integrations: hookline.Integrations{"All": false, "Webhooks": true},
	})
	fmt.Println(err)
	fmt.Println(client.Track(&hookline.Track{UserId: "u1"}))
	// Output:
	// <nil>
	// hookline: missing_event: A track call needs Event, the name of what happened.
}

func ExampleClient_Page() {
	client := newClient()
	defer client.Close()
	err := client.Page(&hookline.Page{UserId: "u1", Category: "Docs", Name: "Install", Properties: hookline.Properties{"path": "/install"}})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleClient_Screen() {
	client := newClient()
	defer client.Close()
	fmt.Println(client.Screen(&hookline.Screen{AnonymousId: "a1", Name: "Home"}))
	// Output: <nil>
}

func ExampleClient_Group() {
	client := newClient()
	defer client.Close()
	fmt.Println(client.Group(&hookline.Group{UserId: "u1", GroupId: "acme", Traits: hookline.Traits{"employees": 12}}))
	// Output: <nil>
}

func ExampleClient_Alias() {
	client := newClient()
	defer client.Close()
	fmt.Println(client.Alias(&hookline.Alias{PreviousId: "a1", UserId: "u1"}))
	// Output: <nil>
}

// The other calls have the same form with a context: IdentifyContext, PageContext, ScreenContext, GroupContext, AliasContext.
func ExampleClient_TrackContext() {
	client, err := hookline.NewWithOptions("WRITE_KEY", hookline.Options{Transport: stand{}, OnFull: hookline.Block})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err = client.TrackContext(ctx, &hookline.Track{UserId: "u1", Event: "Order Completed"})
	if errors.Is(err, hookline.ErrQueueFull) {
		fmt.Println("no room within a second")
	}
	fmt.Println(err)
	// Output: <nil>
}

func ExampleClient_IdentifyContext() {
	client := newClient()
	defer client.Close()
	fmt.Println(client.IdentifyContext(context.Background(), &hookline.Identify{UserId: "u1"}))
	// Output: <nil>
}

// Every page that a web server answers is a page view.
func ExampleClient_PageContext() {
	client := newClient()
	defer client.Close()
	pages := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r)
			_ = client.PageContext(r.Context(), &hookline.Page{
				AnonymousId: "a1", // from your cookie
				Name:        r.URL.Path,
				Properties:  hookline.Properties{"referrer": r.Referer()},
				Context:     hookline.Context{"userAgent": r.UserAgent()},
			})
		})
	}
	pages(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/docs", nil))
	fmt.Println(client.Flush().Accepted)
	// Output: 1
}

func ExampleClient_ScreenContext() {
	client := newClient()
	defer client.Close()
	fmt.Println(client.ScreenContext(context.Background(), &hookline.Screen{UserId: "u1", Name: "Home"}))
	// Output: <nil>
}

func ExampleClient_GroupContext() {
	client := newClient()
	defer client.Close()
	fmt.Println(client.GroupContext(context.Background(), &hookline.Group{UserId: "u1", GroupId: "acme"}))
	// Output: <nil>
}

func ExampleClient_AliasContext() {
	client := newClient()
	defer client.Close()
	fmt.Println(client.AliasContext(context.Background(), &hookline.Alias{PreviousId: "a1", UserId: "u1"}))
	// Output: <nil>
}

func ExampleClient_Flush() {
	client := newClient()
	defer client.Close()
	_ = client.Track(&hookline.Track{UserId: "u1", Event: "Order Completed"})
	result := client.Flush()
	fmt.Println(result.OK(), result.Accepted, result.Waiting)
	for _, lost := range result.Receipts {
		fmt.Println(lost.MessageId, lost.Outcome, lost.Code, lost.Reason)
	}
	// Output: true 1 0
}

func ExampleClient_FlushContext() {
	client := newClient()
	defer client.Close()
	_ = client.Track(&hookline.Track{UserId: "u1", Event: "Order Completed"})
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	fmt.Println(client.FlushContext(ctx).Accepted)
	// Output: 1
}

func ExampleClient_Close() {
	client := newClient()
	_ = client.Track(&hookline.Track{UserId: "u1", Event: "Order Completed"})
	fmt.Println(client.Close())
	fmt.Println(errors.Is(client.Track(&hookline.Track{UserId: "u1", Event: "Late"}), hookline.ErrClosed))
	// Output:
	// <nil>
	// true
}

// A web server that ends well: requests first, then the events that they made.
func ExampleClient_CloseContext() {
	client := newClient()
	server := &http.Server{Addr: "127.0.0.1:0", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = client.PageContext(r.Context(), &hookline.Page{AnonymousId: "a1", Name: r.URL.Path})
	})}
	ended, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	go server.ListenAndServe()
	stop() // in a program: it runs until a signal comes
	<-ended.Done()

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_ = server.Shutdown(ctx)
	fmt.Println(client.CloseContext(ctx))
	// Output: <nil>
}

func ExampleClient_Stats() {
	client := newClient()
	defer client.Close()
	_ = client.Track(&hookline.Track{UserId: "u1", Event: "Order Completed"})
	_ = client.Track(&hookline.Track{Event: "Nobody's"})
	client.Flush()
	fmt.Printf("%+v\n", client.Stats())
	// Output: {Queued:1 Accepted:1 Rejected:0 GaveUp:0 Dropped:0 Invalid:1}
}

func ExampleClient_Options() {
	client := newClient()
	defer client.Close()
	fmt.Println(client.Options().FlushAt, client.Options().FlushAfter, client.Options().OnFull)
	// Output: 20 5s drop_new
}

func ExampleNewMessageId() {
	client, err := hookline.NewWithOptions("WRITE_KEY", hookline.Options{Transport: stand{}, Receipts: true})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	id := hookline.NewMessageId()
	_ = client.Track(&hookline.Track{UserId: "u1", Event: "Order Completed", MessageId: id})
	receipt := client.Flush().Receipts[0]
	fmt.Println(receipt.MessageId == id, receipt.Outcome)
	// Output: true accepted
}

func ExampleFlushResult_OK() {
	fmt.Println(hookline.FlushResult{Accepted: 3}.OK(), hookline.FlushResult{Dropped: 1}.OK())
	// Output: true false
}

func ExampleError() {
	client := newClient()
	defer client.Close()
	err := client.Group(&hookline.Group{UserId: "u1"})
	var wrong *hookline.Error
	if errors.As(err, &wrong) {
		fmt.Println(wrong.Code)
	}
	fmt.Println(errors.Is(err, &hookline.Error{Code: "missing_group_id"}))
	// Output:
	// missing_group_id
	// true
}
