package hookline

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	folderMode = 0o700
	fileMode   = 0o600
	// A segment is removed when all of it is acknowledged: so much may stay longer than needed.
	segmentBytes = 4 << 20
	readBytes    = 64 << 10
	// A box takes milliseconds to make; one that is older than this without being visible never will be.
	infantMost = time.Hour
)

var errSpoolFull = errors.New("so much waits in it already")

// spool is a directory in which the processes of a program keep their events until the service has acknowledged them:
// DIRECTORY/KEY/BOX/. KEY is made of the write key, so that no event is ever sent with another source's key; each client
// has a box of its own. A box whose process is gone is adopted by any other client with the same write key, also by one
// of the Python library, which keeps the same files.
//
// The folder of the write key must be this user's, with nobody else who may write there: so is everything in it, then.
// append from any goroutine, the rest from one.
type spool struct {
	folder   string
	bytesMax int
	mu       sync.Mutex
	box      *box
	removed  []*box         // those that were ours until somebody removed their folder: append may not close what the other reads
	putOff   map[string]int // how often which boxes were let go: one that cannot be read must not keep those behind it
}

func newSpool(directory, writeKey string, bytesMax int) *spool {
	digest := sha256.Sum256([]byte(writeKey))
	return &spool{folder: filepath.Join(directory, hex.EncodeToString(digest[:])[:16]), bytesMax: bytesMax, putOff: map[string]int{}}
}

// append keeps an event, or returns errSpoolFull, or why it cannot be written.
func (s *spool) append(line []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.box == nil {
		if err := s.create(); err != nil {
			return err
		}
	}
	err := s.box.append(line, s.bytesMax)
	// Somebody removed its folder, and it needs another file. What is still open of it is sent first.
	if errors.Is(err, fs.ErrNotExist) && s.box.isEmpty() {
		s.removed = append(s.removed, s.box)
		s.box = nil
		if err = s.create(); err == nil {
			err = s.box.append(line, s.bytesMax)
		}
	}
	return err
}

func (s *spool) create() (err error) {
	if err = os.MkdirAll(s.folder, folderMode); err == nil {
		if err = checkOwnFolder(s.folder); err == nil {
			s.box, err = createBox(s.folder)
		}
	}
	return err
}

// own returns the box of this client, nil before its first event.
func (s *spool) own() *box {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.box
}

// abandon lets go of a box whose files somebody removed: the next event begins another.
func (s *spool) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removed = append(s.removed, s.box)
	s.box = nil
}

// forgetRemoved closes what is still open of boxes whose folder somebody removed.
func (s *spool) forgetRemoved() {
	s.mu.Lock()
	removed := s.removed
	s.removed = nil
	s.mu.Unlock()
	for _, b := range removed {
		b.forget()
	}
}

// adopt takes over the oldest box whose process is gone, last those that were let go most; nil when there is none. The
// error is that of boxes that cannot be taken over, when there is no other.
func (s *spool) adopt() (*box, error) {
	s.forgetRemoved()
	err := checkOwnFolder(s.folder)
	var entries []fs.DirEntry
	if err == nil {
		entries, err = os.ReadDir(s.folder) // sorted: names begin with the time
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	sort.SliceStable(entries, func(i, j int) bool { return s.putOff[entries[i].Name()] < s.putOff[entries[j].Name()] })
	own := s.own()
	var wrong error
	for _, entry := range entries {
		folder := filepath.Join(s.folder, entry.Name())
		switch {
		case strings.HasPrefix(entry.Name(), "."):
			if about, err := entry.Info(); err == nil && time.Since(about.ModTime()) > infantMost {
				removeBox(folder)
			}
		case own == nil || folder != own.folder:
			adopted, err := adoptBox(folder)
			if adopted != nil {
				return adopted, nil
			}
			wrong = errors.Join(wrong, err)
		}
	}
	return nil, wrong
}

// letGo closes a box that cannot be read, and reports whether that is for the first time.
func (s *spool) letGo(adopted *box) bool {
	name := filepath.Base(adopted.folder)
	s.putOff[name]++
	adopted.forget()
	return s.putOff[name] == 1
}

// box is the folder of one process in a spool: its events in the order of the calls, until they are acknowledged. lock is
// locked as long as the process lives; 0000000001.log and so on hold a line per event; place says up to where they are
// acknowledged. A box becomes visible by a rename, with its lock taken, so that nobody adopts an infant.
//
// An event is in the page cache when append returns: the end of the process, however it comes, loses nothing. sync brings
// it to the disk. A place that is older than it was repeats events, which the service knows by their messageId.
//
// append and sync from any goroutine, the rest from one.
type box struct {
	folder string
	lock   *os.File
	place  place

	mu           sync.Mutex
	numbers      []int // of the segments that are there
	writing      *os.File
	endBytes     int64 // behind the last whole line of the segment that is written
	waitingBytes int   // of the events appended here that are not acknowledged
	unsynced     map[int]bool

	reading *os.File
	ahead   []byte // what was read of that segment behind the place
}

func createBox(directory string) (*box, error) {
	name := fmt.Sprintf("%x-%d-%s", time.Now().UnixNano(), os.Getpid(), newSeed()[:8])
	infant := filepath.Join(directory, ".new-"+name)
	if err := os.Mkdir(infant, folderMode); err != nil {
		return nil, err
	}
	made, err := newBox(infant, os.O_RDWR|os.O_CREATE)
	if err == nil {
		// Now, so that later there is room for it on a full disk too.
		if err = made.place.move(1, 0); err == nil {
			made.folder = filepath.Join(directory, name)
			err = os.Rename(infant, made.folder)
		}
	}
	if err != nil { // the next call tries again: nothing of this one may stay
		removeBox(infant)
		if made != nil {
			made.forget()
		}
		return nil, err
	}
	return made, nil
}

// adoptBox takes over a box whose process is gone; nil while it lives, and when another process was quicker.
func adoptBox(folder string) (*box, error) {
	flags := os.O_RDWR
	if hasLostItsLock(folder) {
		flags |= os.O_CREATE
	}
	adopted, err := newBox(folder, flags)
	switch {
	case err == nil:
		return adopted, nil
	case errors.Is(err, errLocked):
		return nil, nil
	case errors.Is(err, fs.ErrNotExist):
		_ = os.Remove(folder) // its removal was interrupted at the end
		return nil, nil
	}
	return nil, err
}

// hasLostItsLock reports whether somebody removed the lock of a box with events, which our own removal takes last. Nobody
// would ever send them otherwise. If their process lives after all, they are sent twice, which the service knows by their
// messageIds.
func hasLostItsLock(folder string) bool {
	entries, _ := os.ReadDir(folder) // of a folder that cannot be read, whoever opens the lock says so
	hasEvents := false
	for _, entry := range entries {
		if entry.Name() == "lock" {
			return false
		}
		hasEvents = hasEvents || strings.HasSuffix(entry.Name(), ".log")
	}
	return hasEvents
}

// newBox locks the box in a folder.
func newBox(folder string, flags int) (*box, error) {
	path := filepath.Join(folder, "lock")
	lock, err := os.OpenFile(path, flags, fileMode)
	if err != nil {
		return nil, err
	}
	b := &box{folder: folder, lock: lock, unsynced: map[int]bool{}}
	if err = lockFile(lock); err == nil {
		err = b.open(path)
	}
	if err != nil {
		b.forget()
		return nil, err
	}
	return b, nil
}

func (b *box) open(lockPath string) error {
	mine, err := b.lock.Stat()
	if err != nil {
		return err
	}
	if there, err := os.Stat(lockPath); err != nil || !os.SameFile(mine, there) {
		return errLocked // another process was quicker, and removed it
	}
	entries, err := os.ReadDir(b.folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if number, err := strconv.Atoi(strings.TrimSuffix(entry.Name(), ".log")); err == nil {
			b.numbers = append(b.numbers, number)
		}
	}
	sort.Ints(b.numbers)
	return b.place.open(filepath.Join(b.folder, "place"))
}

// append keeps an event. When it cannot be written, nothing of it is kept.
func (b *box) append(line []byte, bytesMax int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waitingBytes+len(line) >= bytesMax {
		return errSpoolFull
	}
	if b.writing == nil || b.endBytes >= segmentBytes {
		if err := b.beginSegment(); err != nil {
			return err
		}
	}
	if _, err := b.writing.Write(append(line, '\n')); err != nil {
		if b.writing.Truncate(b.endBytes) != nil { // half a line may stay: what comes next must not be joined to it
			_ = b.writing.Close()
			b.writing = nil
		}
		return err
	}
	size := len(line) + 1
	b.endBytes += int64(size)
	b.waitingBytes += size
	b.unsynced[b.numbers[len(b.numbers)-1]] = true
	return nil
}

// isEmpty reports whether everything appended here is acknowledged.
func (b *box) isEmpty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waitingBytes == 0
}

func (b *box) beginSegment() error {
	number := 1
	if n := len(b.numbers); n > 0 {
		number = b.numbers[n-1] + 1
	}
	segment, err := os.OpenFile(b.path(number), os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	if b.writing != nil {
		_ = b.writing.Close()
	}
	b.writing, b.endBytes = segment, 0
	b.numbers = append(b.numbers, number)
	return nil
}

// read returns the oldest events that are not acknowledged, within the limits; none when there are none.
func (b *box) read(linesMax, bytesMax int) ([]message, error) {
	for {
		b.mu.Lock()
		numbers := b.numbers
		b.mu.Unlock()
		if len(numbers) == 0 {
			return nil, nil
		}
		lines, err := b.readSegment(numbers[0], linesMax, bytesMax)
		// Asked before it was read: one that is followed by another gets no more lines.
		if len(lines) > 0 || err != nil || len(numbers) == 1 {
			return lines, err
		}
		if err := b.removeFirst(); err != nil {
			return nil, err
		}
	}
}

func (b *box) readSegment(number, linesMax, bytesMax int) (lines []message, err error) {
	if b.reading == nil {
		b.ahead = nil
		if b.reading, err = os.Open(b.path(number)); err != nil {
			if errors.Is(err, fs.ErrNotExist) { // somebody removed it
				err = nil
			}
			return nil, err
		}
	}
	if b.place.number != number { // it was left in a segment that is gone, or was lost
		if err := b.place.move(number, 0); err != nil {
			return nil, err
		}
	}
	for from := 0; len(lines) < linesMax; {
		size := bytes.IndexByte(b.ahead[from:], '\n')
		if size < 0 {
			var isMore bool
			if isMore, err = b.readAhead(); isMore {
				continue
			}
			break
		}
		if len(lines) > 0 && from+size+1 > bytesMax {
			break
		}
		lines = append(lines, message(b.ahead[from:from+size]))
		from += size + 1
	}
	// Half a line is read again: its writer may yet take it back, when the disk is full.
	b.ahead = b.ahead[:bytes.LastIndexByte(b.ahead, '\n')+1]
	if len(lines) > 0 { // those before the fault are sent first
		err = nil
	}
	return lines, err
}

// readAhead reads more of the segment; false at its end. What was read before stays where it is for who holds it.
func (b *box) readAhead() (isMore bool, err error) {
	more := make([]byte, len(b.ahead), len(b.ahead)+readBytes)
	copy(more, b.ahead)
	n, err := b.reading.ReadAt(more[len(more):cap(more)], b.place.offset+int64(len(more)))
	b.ahead = more[:len(more)+n]
	if n > 0 || errors.Is(err, io.EOF) {
		err = nil
	}
	return n > 0, err
}

// acknowledge says that the lines that were read last are done. An error means that only this process will know it.
func (b *box) acknowledge(lines []message) error {
	done := 0
	for _, line := range lines {
		done += len(line) + 1
	}
	b.mu.Lock()
	b.waitingBytes = max(0, b.waitingBytes-done)
	b.mu.Unlock()
	b.ahead = b.ahead[done:]
	return b.place.move(b.place.number, b.place.offset+int64(done))
}

func (b *box) removeFirst() error {
	if b.reading != nil {
		_ = b.reading.Close()
		b.reading = nil
	}
	b.mu.Lock()
	number := b.numbers[0]
	b.numbers = b.numbers[1:]
	delete(b.unsynced, number)
	b.mu.Unlock()
	if err := os.Remove(b.path(number)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sync brings everything appended so far to the disk; nothing to do when it is there.
func (b *box) sync() error {
	b.mu.Lock()
	unsynced := b.unsynced
	b.unsynced = map[int]bool{}
	b.mu.Unlock()
	if len(unsynced) == 0 {
		return nil
	}
	var wrong []error
	for number := range unsynced {
		wrong = append(wrong, syncFile(b.path(number)))
	}
	// The names too: of the files, and of the folder.
	err := errors.Join(append(wrong, syncFile(b.folder), syncFile(filepath.Dir(b.folder)))...)
	if err != nil { // there may only be no descriptor to have: the next one brings them to the disk
		b.mu.Lock()
		defer b.mu.Unlock()
		for number := range unsynced {
			b.unsynced[number] = true
		}
	}
	return err
}

// close lets go of the box: an empty one is removed, any other is brought to the disk and left to be adopted.
func (b *box) close() error {
	lines, err := b.read(1, 1)
	if len(lines) == 0 && err == nil {
		removeBox(b.folder)
	} else {
		err = errors.Join(err, b.sync())
	}
	b.forget()
	return err
}

// forget closes all files.
func (b *box) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, file := range []*os.File{b.writing, b.reading, b.place.file, b.lock} {
		if file != nil {
			_ = file.Close()
		}
	}
}

func (b *box) path(number int) string {
	return filepath.Join(b.folder, fmt.Sprintf("%010d.log", number))
}

// place is up to where the events of a box are acknowledged, in a file that is overwritten in place and not brought to
// the disk.
type place struct {
	file   *os.File
	number int
	offset int64
}

func (p *place) open(path string) (err error) {
	if p.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, fileMode); err != nil {
		return err
	}
	record := make([]byte, 64)
	n, _ := p.file.ReadAt(record, 0)
	var number int
	var offset int64
	var check uint32
	if _, err := fmt.Sscanf(string(record[:n]), "%d %d %x\n", &number, &offset, &check); err == nil &&
		check == crc32.ChecksumIEEE(placeFields(number, offset)) {
		p.number, p.offset = number, offset
	} // else never written, or damaged: everything that is there is sent again
	return nil
}

// move writes the place down. In this process it has moved even when the disk does not take it.
func (p *place) move(number int, offset int64) error {
	p.number, p.offset = number, offset
	fields := placeFields(number, offset)
	_, err := p.file.WriteAt(fmt.Appendf(fields, " %08x\n", crc32.ChecksumIEEE(fields)), 0)
	return err
}

func placeFields(number int, offset int64) []byte {
	return fmt.Appendf(nil, "%010d %012d", number, offset)
}

func syncFile(path string) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) { // acknowledged meanwhile, and removed
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	return file.Sync()
}

// removeBox removes a folder with all that is in it, the lock last: until then nobody else has it.
func removeBox(folder string) {
	entries, _ := os.ReadDir(folder)
	for _, entry := range entries {
		if entry.Name() != "lock" {
			_ = os.Remove(filepath.Join(folder, entry.Name()))
		}
	}
	_ = os.Remove(filepath.Join(folder, "lock"))
	_ = os.Remove(folder) // fails when another process was quicker
}
