#!/usr/bin/env php
<?php

declare(strict_types=1);

// Uploads the log file of the `file` consumer: see `send.php --help`.
require __DIR__ . '/autoload.php';

exit(Hookline\Upload\Command::main(array_slice($argv, 1)));
