<?php

declare(strict_types=1);

namespace Hookline;

/** A file cannot be used: the message says which and why, the code what kind of failure it is. */
final class FileException extends \RuntimeException
{
    public const NO_ROOM = 1;
    /** Somebody else may have put it there. */
    public const NOT_TRUSTED = 2;
    /** Another process keeps it locked. */
    public const BUSY = 3;
}
