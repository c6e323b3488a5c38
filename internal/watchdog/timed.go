package watchdog

// timed is something that is due at a time.
type timed struct {
	at moment
	id uint32
}

// timeline is a heap of what is due, the earliest first. What is planned for an earlier time is put in once more: who
// takes it out has to look whether its time still is that.
type timeline []timed

func (h *timeline) push(t timed) {
	*h = append(*h, t)
	s, i := *h, len(*h)-1
	for i > 0 {
		up := (i - 1) / 2
		if s[up].at <= s[i].at {
			break
		}
		s[up], s[i] = s[i], s[up]
		i = up
	}
}

func (h *timeline) pop() timed {
	s := *h
	first, last := s[0], len(s)-1
	s[0] = s[last]
	s = s[:last]
	*h = s
	for i := 0; ; {
		down := 2*i + 1
		if down >= len(s) {
			break
		}
		if down+1 < len(s) && s[down+1].at < s[down].at {
			down++
		}
		if s[i].at <= s[down].at {
			break
		}
		s[i], s[down] = s[down], s[i]
		i = down
	}
	if len(s) == 0 {
		*h = nil // let go of what many once needed
	}
	return first
}

// first is the time of the earliest, never if there is none.
func (h timeline) first() moment {
	if len(h) == 0 {
		return never
	}
	return h[0].at
}
