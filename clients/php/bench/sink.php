<?php

declare(strict_types=1);

// A service that reads requests, counts the events in them and does nothing else: php sink.php PORT
// `GET /` answers the count and begins anew.

const ANSWER = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s";

// Calls of `socket` come faster than one process accepts them.
$backlog = stream_context_create(['socket' => ['backlog' => 4096]]);
$flags = STREAM_SERVER_BIND | STREAM_SERVER_LISTEN;
$listener = stream_socket_server("tcp://127.0.0.1:$argv[1]", $number, $reason, $flags, $backlog) ?: exit(1);
$connections = [];
$unread = [];
$events = 0;
for (;;) {
    $ready = [$listener, ...$connections];
    $none = null;
    if (stream_select($ready, $none, $none, null) === false) {
        continue;
    }
    foreach ($ready as $connection) {
        if ($connection === $listener) {
            $accepted = stream_socket_accept($listener, 1.0);
            if ($accepted !== false) {
                stream_set_blocking($accepted, false);
                $connections[(int) $accepted] = $accepted;
                $unread[(int) $accepted] = '';
            }
            continue;
        }
        $id = (int) $connection;
        $isQuestion = false;
        $data = fread($connection, 1 << 20);
        $unread[$id] .= (string) $data;
        while (($head = strpos($unread[$id], "\r\n\r\n")) !== false) {
            $heading = substr($unread[$id], 0, $head);
            $length = preg_match('/^content-length: *(\d+)/mi', $heading, $found) ? (int) $found[1] : 0;
            if (strlen($unread[$id]) < $head + 4 + $length) {
                break;
            }
            $isQuestion = str_starts_with($unread[$id], 'GET');
            $events += substr_count($unread[$id], '"messageId"', $head, 4 + $length);
            $unread[$id] = substr($unread[$id], $head + 4 + $length);
            $body = $isQuestion ? (string) $events : '{"success":true}';
            $events = $isQuestion ? 0 : $events;
            @fwrite($connection, sprintf(ANSWER, strlen($body), $body)); // who waits for no answer may be gone
        }
        if ($isQuestion || $data === false || ($data === '' && feof($connection))) {
            unset($connections[$id], $unread[$id]);
            fclose($connection);
        }
    }
}
