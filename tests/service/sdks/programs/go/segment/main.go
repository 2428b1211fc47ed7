// A program of somebody who uses analytics-go: only the endpoint is not the default.
package main

import (
	"encoding/json"
	"log"
	"os"

	"github.com/segmentio/analytics-go/v3"
)

type failures struct{}

func (failures) Success(analytics.Message) {}

func (failures) Failure(message analytics.Message, err error) { log.Fatal(err) }

func main() {
	client, err := analytics.NewWithConfig(os.Getenv("WRITE_KEY"), analytics.Config{
		Endpoint: os.Getenv("HOST"),
		Callback: failures{},
	})
	must(err)
	said, err := os.ReadFile(os.Getenv("CALLS"))
	must(err)
	var calls []json.RawMessage
	must(json.Unmarshal(said, &calls))
	for _, call := range calls {
		must(client.Enqueue(message(call)))
	}
	must(client.Close())
}

func message(call json.RawMessage) analytics.Message {
	var kind struct{ Type string }
	must(json.Unmarshal(call, &kind))
	switch kind.Type {
	case "identify":
		return read[analytics.Identify](call)
	case "track":
		return read[analytics.Track](call)
	case "page":
		return read[analytics.Page](call)
	case "screen":
		return read[analytics.Screen](call)
	case "group":
		return read[analytics.Group](call)
	}
	return read[analytics.Alias](call)
}

// The library's structs have the names of the fields as JSON tags.
func read[Message analytics.Message](call json.RawMessage) analytics.Message {
	var message Message
	must(json.Unmarshal(call, &message))
	return message
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
