package hookline

// An Error says why an event or a request was lost, or which option cannot be used. Code is stable; Message says what to
// do. Two errors with the same code are the same to [errors.Is].
type Error struct {
	Code    string
	Message string

	cause error
}

// What a call returns when a good event could not be queued.
var (
	ErrClosed    = &Error{Code: "closed", Message: codes["closed"]}
	ErrQueueFull = &Error{Code: "queue_full", Message: codes["queue_full"]}
)

// Error returns the code and the message.
func (e *Error) Error() string { return "hookline: " + e.Code + ": " + e.Message }

// Is reports whether target is an Error with the same code.
func (e *Error) Is(target error) bool {
	other, ok := target.(*Error)
	return ok && other.Code == e.Code
}

// Unwrap returns what led to the error, such as the end of a context, or nil.
func (e *Error) Unwrap() error { return e.cause }

// failure makes the error of a code, whose sentence ends with the cause if there is one.
func failure(code string, cause error) *Error {
	message := codes[code]
	if cause != nil {
		message += " (" + cause.Error() + ")"
	}
	return &Error{Code: code, Message: message, cause: cause}
}

// codes are the library's own; those of the service are passed on as they are.
var codes = map[string]string{
	"invalid_option":      "An option of the client cannot be used.",
	"internal_error":      "The call failed in a way nobody foresaw.",
	"missing_write_key":   "Give the write key of a source; without one nothing is sent.",
	"missing_user_id":     "Give UserId or AnonymousId; an alias needs UserId.",
	"missing_previous_id": "An alias needs PreviousId beside UserId.",
	"missing_event":       "A track call needs Event, the name of what happened.",
	"missing_group_id":    "A group call needs GroupId.",
	"missing_name":        "A page or screen with a category needs a name.",
	"invalid_field":       "A field has the wrong type: integrations in a context must be a map.",
	"invalid_timestamp":   "Timestamp must be an ISO 8601 string, or seconds since the epoch.",
	"invalid_message_id":  "MessageId may have at most 512 characters; leave it out to have one made.",
	"not_serialisable":    "The event cannot be written as JSON: it is circular or too deep.",
	"event_too_large":     "An event may have at most 32,768 bytes; send less.",
	"before_send_failed":  "BeforeSend panicked; the event was not sent, as BeforeSendFailure says.",
	"queue_full":          "The queue is full: the service does not keep up or cannot be reached.",
	"spool_failed":        "The spool cannot be written or read; see what the system says about it.",
	"spool_damaged":       "The spool held lines that are no events, or files of it are gone; they were left out.",
	"closed":              "The client was closed before this event could be sent.",
	"connection_failed":   "The service cannot be reached at the endpoint.",
	"timed_out":           "The service did not answer in time.",
	"tls_failed":          "TLS failed: the certificate cannot be verified, or what answers speaks no TLS; write http:// then.",
	"unexpected_answer":   "What answered is not Hookline: check the endpoint.",
	"throttled":           "The service asked for a pause for longer than the retry budget.",
	"server_error":        "The service failed for longer than the retry budget.",
	"refused":             "The service refused the request.",
}
