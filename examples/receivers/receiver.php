<?php
// A receiver in PHP: verifies X-Signature and answers 200.
// Run: SECRET=s3cret php -S 127.0.0.1:9000 receiver.php

$body = file_get_contents('php://input');

// The signature is over the bytes of the body: compute it before parsing, compare in constant time.
$expected = hash_hmac('sha1', $body, getenv('SECRET'));
// While the secret rotates, the new one's signature is in X-Signature-Next.
$given = hash_equals($expected, $_SERVER['HTTP_X_SIGNATURE'] ?? '');
$next = hash_equals($expected, $_SERVER['HTTP_X_SIGNATURE_NEXT'] ?? '');
if (!$given && !$next) {
    http_response_code(401);
    return;
}

// Drop what was seen before by $_SERVER['HTTP_X_MESSAGE_ID']: after a crash an event may come again.
file_put_contents('php://stdout', $body . "\n");
http_response_code(200);
