//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package hookline

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// asProgram makes the test binary a program that tracks until it is killed, and prints what was promised.
const asProgram = "HOOKLINE_TEST_SPOOL"

func TestMain(m *testing.M) {
	if folder := os.Getenv(asProgram); folder != "" {
		client, _ := NewWithOptions("wk", Options{Endpoint: os.Getenv("HOOKLINE_TEST_ENDPOINT"), Spool: folder, FlushAfter: 20 * time.Millisecond})
		for n := 0; ; n++ {
			id := fmt.Sprintf("%d-%d", os.Getpid(), n)
			if client.Track(&Track{UserId: "u", Event: "Killed", MessageId: id}) == nil {
				fmt.Println(id)
			}
		}
	}
	os.Exit(m.Run())
}

func closeAtOnce(c *Client) error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return c.CloseContext(ctx)
}

func logs(t *testing.T, folder string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, "*", "*", "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Events of a client that was closed while the service was away are sent by the next one, before nothing is left.
func TestSpoolSurvives(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "spool")
	s := newService(t)
	c := newClient(t, s, Options{Endpoint: "http://127.0.0.1:1", Spool: folder})
	track(t, c, "a", "b")
	equal(t, "close", closeAtOnce(c), nil)
	if err := c.Track(&Track{UserId: "u", Event: "E"}); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	equal(t, "files", len(logs(t, folder)), 1)
	h, o := &told{}, Options{Spool: folder}
	h.handlers(&o)
	c = newClient(t, s, o)
	track(t, c, "c")
	if r := c.Flush(); r.Accepted != 1 || !r.OK() {
		t.Errorf("%+v", r)
	}
	waitUntil(t, "adopted and removed", func() bool { return len(s.events()) == 3 && len(logs(t, folder)) == 1 })
	equal(t, "close", c.Close(), nil)
	got := s.names()
	slices.Sort(got)
	equal(t, "sent", strings.Join(got, " "), "a b c")
	equal(t, "acknowledged", strings.Join(h.ids, " "), "c")
	equal(t, "files left", len(logs(t, folder)), 0)
	s.Server.Close()
	noGoroutinesLeft(t)
}

// Whatever a call promised before kill -9 arrives, in the order of the calls.
func TestSpoolKilled(t *testing.T) {
	folder, s := t.TempDir(), newService(t)
	promised := map[string]bool{}
	for range 3 {
		program := exec.Command(os.Args[0])
		program.Env = append(os.Environ(), asProgram+"="+folder, "HOOKLINE_TEST_ENDPOINT="+s.URL)
		out, err := program.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := program.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			promised[lines.Text()] = true
			if n == 300 {
				_ = program.Process.Kill()
			}
		}
		_ = program.Wait()
	}
	c := newClient(t, s, Options{Spool: folder})
	c.Flush()
	waitUntil(t, "all boxes adopted", func() bool { return len(logs(t, folder)) == 0 })
	last := map[string]int{}
	for _, e := range s.events() {
		id := e["messageId"].(string)
		delete(promised, id)
		process, number, _ := strings.Cut(id, "-")
		var n int
		_, _ = fmt.Sscan(number, &n)
		if at, known := last[process]; known && n > at+1 {
			t.Errorf("%s came after %d", id, at)
		}
		last[process] = max(n, last[process])
	}
	equal(t, "lost", len(promised), 0)
}

// A refused key and a service that is away lose nothing; flush returns at once for the former.
func TestSpoolWaits(t *testing.T) {
	s := newService(t, reply{status: 500}, reply{status: 401, body: `{"code":"unknown_write_key","message":"Who?"}`})
	h, o := &told{}, Options{Spool: t.TempDir(), MaxRetries: -1}
	h.handlers(&o)
	c := newClient(t, s, o)
	track(t, c, "a")
	r := c.Flush()
	equal(t, "waiting", r.Waiting, 1)
	equal(t, "told", h.all(), "server_error unknown_write_key")
	equal(t, "accepted", c.Flush().Accepted, 1)
}

// One event that the service cannot take leaves the spool with a receipt; the others arrive.
func TestSpoolBadEvent(t *testing.T) {
	s := newService(t, reply{judge: func(events []map[string]any) (int, string) {
		for _, e := range events {
			if e["event"] == "bad" {
				return 400, `{"code":"nesting_too_deep","message":"Too deep."}`
			}
		}
		return 200, accepted
	}})
	c := newClient(t, s, Options{Spool: t.TempDir()})
	track(t, c, "a", "b", "bad", "c")
	r := c.Flush()
	if r.Accepted != 3 || r.Rejected != 1 || r.Receipts[0] != (Receipt{"bad", Rejected, "nesting_too_deep", "Too deep."}) {
		t.Errorf("%+v", r)
	}
	var good []string
	for _, e := range s.events() {
		if id := e["messageId"].(string); !slices.Contains(good, id) && id != "bad" {
			good = append(good, id)
		}
	}
	equal(t, "sent", len(good), 3)
}

// Boxes roll over segments, keep their place, leave out what is no event, and are removed when they are empty.
func TestBox(t *testing.T) {
	folder := t.TempDir()
	b, err := createBox(folder)
	if err != nil {
		t.Fatal(err)
	}
	line := []byte(`{"messageId":"m","x":"` + strings.Repeat("x", 30_000) + `"}`)
	const count = 300 // nine megabytes
	for range count {
		if err := b.append(line, 1<<30); err != nil {
			t.Fatal(err)
		}
	}
	if other, err := adoptBox(b.folder); other != nil || err != nil {
		t.Errorf("the box of a living client was taken: %v", err)
	}
	read := 0
	for read < count/2 {
		lines, err := b.read(7, eventsBytesMax)
		if err != nil || len(lines) == 0 || len(lines) > 7 {
			t.Fatal(len(lines), err)
		}
		if err := b.acknowledge(lines); err != nil {
			t.Fatal(err)
		}
		read += len(lines)
	}
	if err := b.sync(); err != nil {
		t.Error(err)
	}
	b.forget()
	segments, _ := filepath.Glob(b.folder + "/*.log")
	equal(t, "segments left", len(segments), 2)
	file, _ := os.OpenFile(segments[1], os.O_APPEND|os.O_WRONLY, 0)
	_, _ = file.WriteString("no event\n{\"half")
	_ = file.Close()
	b, err = adoptBox(b.folder)
	if err != nil || b == nil {
		t.Fatal(err)
	}
	for {
		lines, err := b.read(100, eventsBytesMax)
		if err != nil {
			t.Fatal(err)
		}
		if len(lines) == 0 {
			break
		}
		read += len(lines)
		_ = b.acknowledge(lines)
	}
	equal(t, "read", read, count+1)
	if err := b.close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(b.folder); err == nil {
		t.Error("the empty box is still there")
	}
}

// A box whose lock somebody removed is adopted all the same, and by one only; a folder that is none is left alone.
func TestBoxWithoutLock(t *testing.T) {
	b, err := createBox(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.append([]byte(`{"messageId":"m"}`), 1<<20); err != nil {
		t.Fatal(err)
	}
	b.forget()
	if err := os.Remove(filepath.Join(b.folder, "lock")); err != nil {
		t.Fatal(err)
	}
	adopted, err := adoptBox(b.folder)
	if err != nil || adopted == nil {
		t.Fatal(adopted, err)
	}
	if another, err := adoptBox(b.folder); another != nil || err != nil {
		t.Error("adopted twice", err)
	}
	lines, err := adopted.read(10, eventsBytesMax)
	if err != nil || len(lines) != 1 {
		t.Fatal(lines, err)
	}
	_ = adopted.acknowledge(lines)
	equal(t, "close", adopted.close(), nil)
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "notes"), nil, fileMode); err != nil {
		t.Fatal(err)
	}
	if adopted, err := adoptBox(other); adopted != nil || err != nil {
		t.Error("adopted what is no box", err)
	}
	if _, err := os.Stat(filepath.Join(other, "notes")); err != nil {
		t.Error(err)
	}
}

// A box that the disk cannot read is not empty: it stays for a time when it can.
func TestBoxThatCannotBeRead(t *testing.T) {
	b, err := createBox(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.append([]byte(`{"messageId":"m"}`), 1<<20); err != nil {
		t.Fatal(err)
	}
	b.forget()
	segment := b.path(1)
	if err := errors.Join(os.Remove(segment), os.Mkdir(segment, folderMode)); err != nil { // which no program can read
		t.Fatal(err)
	}
	b, err = adoptBox(b.folder)
	if err != nil {
		t.Fatal(err)
	}
	if lines, err := b.read(1, 1); err == nil {
		t.Errorf("read %d lines", len(lines))
	}
	if err := b.close(); err == nil {
		t.Error("closed as if it were empty")
	}
	if _, err := os.Stat(segment); err != nil {
		t.Error(err)
	}
}

// An event that the disk took half of, and does not give back, spoils only itself: the next one goes into another file.
func TestBoxAfterHalfALine(t *testing.T) {
	b, err := createBox(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer b.forget()
	line := []byte(`{"messageId":"m"}`)
	if err := b.append(line, 1<<20); err != nil {
		t.Fatal(err)
	}
	_, _ = b.writing.WriteString(`{"half`)
	_ = b.writing.Close() // from now on each use of it fails
	if err := b.append(line, 1<<20); err == nil {
		t.Fatal("written to a closed file")
	}
	equal(t, "the next", b.append(line, 1<<20), nil)
	for range 2 {
		lines, err := b.read(10, eventsBytesMax)
		if err != nil || len(lines) != 1 || string(lines[0]) != string(line) {
			t.Fatal(lines, err)
		}
		equal(t, "acknowledge", b.acknowledge(lines), nil)
	}
}

// What could not be brought to the disk is brought there the next time.
func TestBoxThatCannotBeSynced(t *testing.T) {
	b, err := createBox(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer b.forget()
	if err := b.append([]byte(`{"messageId":"m"}`), 1<<20); err != nil {
		t.Fatal(err)
	}
	segment := b.path(1)
	if err := errors.Join(os.Rename(segment, segment+".away"), os.Symlink(segment, segment)); err != nil { // which cannot be opened
		t.Fatal(err)
	}
	if err := b.sync(); err == nil {
		t.Error("synced what cannot be opened")
	}
	if err := os.Rename(segment+".away", segment); err != nil {
		t.Fatal(err)
	}
	equal(t, "left to sync", len(b.unsynced), 1)
	equal(t, "sync", b.sync(), nil)
	equal(t, "left to sync", len(b.unsynced), 0)
}

// A spool that is full, not ours, or taken away is told, and the client goes on.
func TestSpoolTrouble(t *testing.T) {
	s := newService(t)
	c := newClient(t, s, Options{Spool: t.TempDir(), SpoolBytes: 500, Endpoint: "http://127.0.0.1:1"})
	track(t, c, "a")
	if err := c.Track(&Track{UserId: "u", Event: "b", Properties: Properties{"x": strings.Repeat("x", 500)}}); !errors.Is(err, ErrQueueFull) {
		t.Errorf("got %v", err)
	}
	_ = closeAtOnce(c)

	open := t.TempDir()
	c = newClient(t, s, Options{Spool: open})
	theirs := newSpool(open, "wk", 1).folder
	if err := errors.Join(os.Mkdir(theirs, 0o700), os.Chmod(theirs, 0o777)); err != nil {
		t.Fatal(err)
	}
	if err := c.Track(&Track{UserId: "u", Event: "E"}); !errors.Is(err, &Error{Code: "spool_failed"}) || !strings.Contains(err.Error(), "0777") {
		t.Errorf("got %v", err)
	}

	h, o := &told{}, Options{Spool: t.TempDir()}
	h.handlers(&o)
	c = newClient(t, s, o)
	track(t, c, "gone")
	if err := os.RemoveAll(newSpool(o.Spool, "wk", 1).folder); err != nil {
		t.Fatal(err)
	}
	equal(t, "waiting", c.Flush().Waiting, 0)
	equal(t, "told", h.all(), "spool_damaged")
	track(t, c, "back")
	equal(t, "accepted", c.Flush().Accepted, 1)
}

// A box that cannot be taken over or read is reported; it keeps no box behind it and does not slow down what is ours.
func TestSpoolBadBox(t *testing.T) {
	usual := faultPause
	faultPause = time.Hour // whoever waits for it never arrives
	t.Cleanup(func() { faultPause = usual })
	for _, bad := range []string{"", "lock", "0000000001.log"} {
		s := newService(t)
		h, o := &told{}, Options{Spool: t.TempDir(), BatchSize: 1}
		h.handlers(&o)
		for _, name := range []string{"in it", "behind it"} {
			left := newClient(t, s, Options{Endpoint: "http://127.0.0.1:1", Spool: o.Spool})
			track(t, left, name)
			equal(t, "close", closeAtOnce(left), nil)
		}
		first := filepath.Dir(logs(t, o.Spool)[0])
		damaged := filepath.Join(first, bad)
		if err := os.RemoveAll(damaged); err != nil {
			t.Fatal(err)
		}
		if bad == "" {
			if err := os.WriteFile(first, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		} else if err := os.Mkdir(damaged, 0o700); err != nil { // a read of it fails, as on a disk that does
			t.Fatal(err)
		}
		c := newClient(t, s, o)
		for range 5 {
			track(t, c, "own")
			equal(t, "accepted", c.Flush().Accepted, 1)
		}
		waitUntil(t, "the box behind it", func() bool { return slices.Contains(s.names(), "behind it") })
		waitUntil(t, "told", func() bool { return strings.Contains(h.all(), "spool_failed") })
		equal(t, "close", c.Close(), nil)
	}
}

// Boxes that were let go take turns: one that can never be read does not keep another one that can be read by now.
func TestSpoolTurns(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"a", "b"} {
		ended := newSpool(folder, "wk", 1<<20)
		if err := ended.append([]byte(name)); err != nil {
			t.Fatal(err)
		}
		ended.own().forget()
	}
	s, taken := newSpool(folder, "wk", 1<<20), ""
	for range 6 {
		adopted, err := s.adopt()
		if err != nil || adopted == nil {
			t.Fatal(adopted, err)
		}
		lines, err := adopted.read(1, 100)
		if err != nil {
			t.Fatal(err)
		}
		taken += string(lines[0])
		s.letGo(adopted)
	}
	equal(t, "taken", taken, "ababab")
}

// A line that is no event is reported once, however often its batch is tried, and leaves the others alone.
func TestSpoolDamagedLine(t *testing.T) {
	s := newService(t, reply{status: 503}, reply{status: 503})
	h, o := &told{}, Options{Spool: t.TempDir()}
	h.handlers(&o)
	left := newClient(t, s, Options{Endpoint: "http://127.0.0.1:1", Spool: o.Spool})
	track(t, left, "a")
	equal(t, "close", closeAtOnce(left), nil)
	segment := logs(t, o.Spool)[0]
	line, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(segment, append([]byte("\x00\x00\n"), line...), fileMode); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, s, o)
	c.Flush()
	waitUntil(t, "the box is gone", func() bool { return len(logs(t, o.Spool)) == 0 })
	equal(t, "told", h.all(), "server_error spool_damaged")
	equal(t, "sent", s.names()[2], "a")
}

// An event of the Python library may have a field whose name differs from messageId by case alone: it is no damage.
func TestMessageIdIsSpelledExactly(t *testing.T) {
	equal(t, "id", message(`{"messageId":"m","messageID":7}`).id(), "m")
	equal(t, "none", message(`{"messageID":7}`).id(), "")
	equal(t, "no event", message("\x00\x00").id(), "")
}

// A client whose whole spool was removed sends what is open of it, and begins another box when it needs another file.
func TestSpoolRemoved(t *testing.T) {
	s := newService(t)
	o := Options{Spool: t.TempDir(), FlushAt: 1e6, FlushAfter: time.Hour}
	c := newClient(t, s, o)
	track(t, c, "a", "b")
	own := c.consumer.(*spooled).spool.own()
	if lines, err := own.read(1, 1); len(lines) != 1 || err != nil { // open from now on
		t.Fatal(lines, err)
	}
	if err := os.RemoveAll(own.folder); err != nil {
		t.Fatal(err)
	}
	own.mu.Lock()
	own.endBytes = segmentBytes
	own.mu.Unlock()
	if err := c.Track(&Track{UserId: "u", Event: "E"}); !errors.Is(err, &Error{Code: "spool_failed"}) {
		t.Errorf("got %v", err)
	}
	equal(t, "accepted", c.Flush().Accepted, 2)
	track(t, c, "c")
	equal(t, "files", len(logs(t, o.Spool)), 1)
	equal(t, "accepted", c.Flush().Accepted, 1)
	equal(t, "close", c.Close(), nil)
	equal(t, "sent", strings.Join(s.names(), " "), "a b c")
	equal(t, "closed", errors.Is(own.lock.Close(), os.ErrClosed), true)
}

// What is not acknowledged after a second is on the disk.
func TestSpoolSyncs(t *testing.T) {
	s := newService(t)
	s.hold = make(chan struct{})
	c := newClient(t, s, Options{Spool: t.TempDir(), FlushAt: 1})
	track(t, c, "a")
	own := c.consumer.(*spooled).spool.own()
	waitUntil(t, "synced", func() bool {
		own.mu.Lock()
		defer own.mu.Unlock()
		return len(own.unsynced) == 0
	})
	close(s.hold)
	equal(t, "accepted", c.Flush().Accepted, 1)
}
