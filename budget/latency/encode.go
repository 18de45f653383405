package latency

import "encoding/binary"

// version is the first byte of the binary form.
const version = 1

// A FormatError says why bytes are no Snapshot.
type FormatError struct{ Why string }

// Error returns the reason.
func (e *FormatError) Error() string { return "latency: malformed snapshot: " + e.Why }

// AppendBinary appends the binary form of s to b: a version and the counts of
// the buckets in use. It takes three to five bytes for each of these, about one
// kilobyte for a usual distribution. The error is always nil.
func (s *Snapshot) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, version)
	b = binary.AppendUvarint(b, s.timedOut)
	b = binary.AppendUvarint(b, s.leftOut)
	next := 0 // a bucket is written as how many are empty before it
	for i := range s.answered {
		if s.answered[i]|s.cutOff[i] == 0 {
			continue
		}
		b = binary.AppendUvarint(b, uint64(i-next))
		b = binary.AppendUvarint(b, s.answered[i])
		b = binary.AppendUvarint(b, s.cutOff[i])
		next = i + 1
	}
	return b, nil
}

// MarshalBinary returns what AppendBinary appends.
func (s *Snapshot) MarshalBinary() ([]byte, error) { return s.AppendBinary(nil) }

// UnmarshalBinary replaces s by what AppendBinary wrote, in this process or
// another. It reads strictly, so that what it accepts is written again as the
// same bytes. The error is a *FormatError, and leaves s empty.
func (s *Snapshot) UnmarshalBinary(data []byte) error {
	*s = Snapshot{}
	if err := s.unmarshal(data); err != nil {
		*s = Snapshot{}
		return err
	}
	return nil
}

func (s *Snapshot) unmarshal(data []byte) error {
	if len(data) == 0 {
		return &FormatError{"empty"}
	}
	if data[0] != version {
		return &FormatError{"unknown version"}
	}
	r := reader{data: data[1:]}
	s.timedOut, s.leftOut = r.count(), r.count()
	for i := 0; len(r.data) > 0 && r.err == nil; i++ {
		gap := r.count()
		if gap >= uint64(buckets-i) {
			r.fail("a bucket beyond the last")
			break
		}
		i += int(gap)
		s.answered[i], s.cutOff[i] = r.count(), r.count()
		if s.answered[i]|s.cutOff[i] == 0 {
			r.fail("an empty bucket")
		}
	}
	if r.err != nil {
		return r.err
	}
	return nil
}

// A reader reads numbers until the first that is malformed.
type reader struct {
	data []byte
	err  *FormatError
}

func (r *reader) fail(why string) {
	if r.err == nil {
		r.err = &FormatError{why}
	}
}

func (r *reader) count() uint64 {
	n, size := binary.Uvarint(r.data)
	switch {
	case r.err != nil:
		return 0
	case size <= 0:
		r.fail("cut short, or a number beyond 64 bits")
		return 0
	case n > maxCount:
		r.fail("a number that is too large")
		return 0
	case size > 1 && r.data[size-1] == 0:
		r.fail("a number with more bytes than it needs")
		return 0
	}
	r.data = r.data[size:]
	return n
}
