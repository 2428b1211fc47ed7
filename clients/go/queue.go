package hookline

// chunkBytes is how much memory for events is taken at once. It is freed when all events in it are gone.
const chunkBytes = 64 << 10

// queue holds the messages that wait in memory, first in, first out. It has no lock: its consumer holds one around every
// call. removed counts all that ever left at the head, so that positions never repeat.
type queue struct {
	removed  int
	waiting  []message // a ring: count of them from head on
	head     int
	count    int
	bytes    int
	sizeMax  int
	bytesMax int
	chunk    []byte
}

// end is the position after the last message.
func (q *queue) end() int { return q.removed + q.count }

// hasRoom reports whether one more may wait. A message always has room in an empty queue.
func (q *queue) hasRoom(size int) bool {
	return q.count == 0 || q.count < q.sizeMax && q.bytes+size <= q.bytesMax
}

// append adds a copy of the message at the end.
func (q *queue) append(m message) {
	size := len(m)
	if cap(q.chunk)-len(q.chunk) < size {
		q.chunk = make([]byte, 0, max(chunkBytes, size))
	}
	from := len(q.chunk)
	q.chunk = append(q.chunk, m...)
	if q.count == len(q.waiting) {
		q.grow()
	}
	q.waiting[(q.head+q.count)%len(q.waiting)] = q.chunk[from:len(q.chunk):len(q.chunk)]
	q.count++
	q.bytes += size
}

// take removes what fits one request, from the head.
func (q *queue) take(eventsMax int) []message {
	n, room := 0, eventsBytesMax
	for n < min(eventsMax, q.count) {
		if room -= len(q.waiting[(q.head+n)%len(q.waiting)]) + 1; room < 0 {
			break
		}
		n++
	}
	return q.remove(n)
}

// remove takes n messages from the head, whatever their size.
func (q *queue) remove(n int) []message {
	taken := make([]message, n)
	for i := range taken {
		taken[i], q.waiting[q.head] = q.waiting[q.head], nil
		q.bytes -= len(taken[i])
		q.head = (q.head + 1) % len(q.waiting)
	}
	q.count -= n
	q.removed += n
	return taken
}

func (q *queue) grow() {
	larger := make([]message, max(64, 2*len(q.waiting)))
	n := copy(larger, q.waiting[q.head:])
	copy(larger[n:], q.waiting[:q.head])
	q.waiting, q.head = larger, 0
}
