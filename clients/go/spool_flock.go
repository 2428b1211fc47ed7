//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package hookline

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

const spoolWorks = true

var errLocked = errors.New("another process has it")

// lockFile locks a file as long as the process lives, or returns errLocked.
func lockFile(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}

// checkOwnFolder refuses a folder that somebody else made or could change, to read what is written or to have something
// else sent.
func checkOwnFolder(path string) error {
	about, err := os.Lstat(path)
	if err != nil {
		return err
	}
	wrong := ""
	switch status, _ := about.Sys().(*syscall.Stat_t); {
	case !about.IsDir():
		wrong = "is not a folder"
	case int(status.Uid) != os.Geteuid():
		wrong = fmt.Sprintf("belongs to another user (uid %d)", status.Uid)
	case about.Mode()&0o022 != 0:
		wrong = fmt.Sprintf("may be written to by others (mode %04o)", about.Mode().Perm())
	default:
		return nil
	}
	return fmt.Errorf("%s %s: see who put it there and move it away, or use a folder of your own: %w", path, wrong, fs.ErrPermission)
}
