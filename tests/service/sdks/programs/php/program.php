<?php
// A program of somebody who uses analytics-php with one of its consumers: only the host is not the default.
require getenv('VENDOR') . '/autoload.php';

use Segment\Segment;

$tls = getenv('TLS') === '1';
$options = [
    'consumer' => getenv('CONSUMER'),
    'error_handler' => function ($code, $message) {
        fwrite(STDERR, "error $code: " . json_encode($message) . "\n");
        exit(1);
    },
];
if (getenv('CONSUMER') === 'file') {
    $options['filename'] = getenv('LOG_FILE');
} else {
    $options += ['host' => getenv('HOST'), 'ssl' => $tls];
}
Segment::init(getenv('WRITE_KEY'), $options);
foreach (json_decode(file_get_contents(getenv('CALLS')), true) as $call) {
    $type = $call['type'];
    unset($call['type']);
    if (isset($call['timestamp'])) {
        $call['timestamp'] = (float) (new DateTime($call['timestamp']))->format('U.v');
    }
    Segment::$type($call);
}
Segment::flush();
