<?php

declare(strict_types=1);

namespace Hookline;

/**
 * Whatever this library throws; `errorCode` is stable, the message says what to do.
 *
 * In production a call throws none of them: it is counted and passed to `error_handler(code, message)`. They are thrown
 * by wrong options, and by calls with `strict`.
 */
final class HooklineException extends \RuntimeException
{
    /** Why an event was lost. The service's own codes (`unknown_write_key` and so on) are passed on as they are. */
    public const SENTENCES = [
        'invalid_option' => 'An option of the client cannot be used; thrown when the client is made.',
        'not_queued' => 'The event was not queued: the queue is full, or the client is closed. Thrown when strict.',
        'internal_error' => 'The call failed in a way nobody foresaw; the sentence has the exception.',
        'missing_write_key' => 'Give the write key of a source; without one nothing is sent.',
        'missing_user_id' => 'Give userId or anonymousId; an alias needs userId.',
        'missing_previous_id' => 'An alias needs previousId beside userId.',
        'missing_event' => 'A track call needs event, the name of what happened.',
        'missing_group_id' => 'A group call needs groupId.',
        'missing_name' => 'A page or screen with a category needs a name.',
        'invalid_field' => 'A field has the wrong type: ids and names are strings or numbers, the rest are mappings.',
        'invalid_timestamp' => 'timestamp must be a DateTimeInterface, an ISO 8601 string, or seconds since the epoch.',
        'invalid_message_id' => 'messageId must be a string of at most 512 characters; leave it out to have one made.',
        'not_serialisable' => 'The event cannot be written as JSON: it is circular, too deep, or holds such a value.',
        'event_too_large' => 'An event may have at most 32,768 bytes; send less.',
        'before_send_failed' => 'before_send threw; the event was not sent, as before_send_failure says.',
        'queue_full' => 'The queue is full: the service does not keep up or cannot be reached.',
        'file_failed' => 'The log file cannot be written; see what the system says about it.',
        'file_busy' => 'Another process kept the log file locked for more than a second.',
        'closed' => 'The client was closed before this event could be sent.',
        'connection_failed' => 'The service cannot be reached at the endpoint.',
        'curl_failed' => 'The program curl could not be started; the events were not sent.',
        'timed_out' => 'The service did not answer in time.',
        'tls_failed' => 'TLS failed: the certificate cannot be verified, or what answers speaks no TLS; '
            . 'write http:// then.',
        'unexpected_answer' => 'What answered is not Hookline: check the endpoint.',
        'throttled' => 'The service asked for a pause for longer than the retry budget.',
        'server_error' => 'The service failed for longer than the retry budget.',
        'refused' => 'The service refused the request.',
    ];

    public function __construct(public readonly string $errorCode, ?string $message = null)
    {
        parent::__construct($message ?? self::SENTENCES[$errorCode] ?? $errorCode);
    }
}
