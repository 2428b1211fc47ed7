<?php

declare(strict_types=1);

// Stands in for the service: takes scripted answers from a file, and appends what it was sent to another.
[, $answersFile, $requestsFile] = $argv;
$listening = stream_socket_server('tcp://127.0.0.1:0');
echo stream_socket_get_name($listening, false), "\n";
$answers = json_decode((string) file_get_contents($answersFile), true);
while (true) {
    $connection = @stream_socket_accept($listening, 3600);
    if ($connection === false) {
        continue;
    }
    stream_set_timeout($connection, 2);
    $head = '';
    while (($line = fgets($connection)) !== false && rtrim($line) !== '') {
        $head .= $line;
    }
    preg_match('/content-length: (\d+)/i', $head, $found);
    $body = '';
    $left = (int) ($found[1] ?? 0);
    while ($left > 0 && ($more = fread($connection, min($left, 65536))) !== '' && $more !== false) {
        $body .= $more;
        $left -= strlen($more);
    }
    if ($head === '') {
        continue;
    }
    $text = stripos($head, 'content-encoding: gzip') === false ? $body : gzdecode($body);
    file_put_contents($requestsFile, json_encode(['head' => $head, 'body' => json_decode($text, true), 'bytes' => strlen($text)]) . "\n", FILE_APPEND);
    $answer = array_shift($answers) ?? [];
    if (isset($answer['hang'])) {
        sleep($answer['hang']);
    }
    $said = json_encode($answer['body'] ?? ['success' => true]);
    $more = implode('', array_map(static fn ($line) => "$line\r\n", $answer['headers'] ?? []));
    @fwrite($connection, 'HTTP/1.1 ' . ($answer['status'] ?? 200) . " Said\r\nConnection: close\r\n{$more}Content-Length: "
        . strlen($said) . "\r\n\r\n$said");
    fclose($connection);
}
