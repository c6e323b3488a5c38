package pipe

// queue is first in, first out.
type queue[T any] struct {
	all  []T
	head int // how many of all are gone
}

func (q *queue[T]) len() int { return len(q.all) - q.head }

func (q *queue[T]) first() *T { return &q.all[q.head] }

func (q *queue[T]) pop() T {
	v := q.all[q.head]
	clear(q.all[q.head : q.head+1])
	if q.head++; q.head == len(q.all) {
		q.all, q.head = q.all[:0], 0
	}
	return v
}

func (q *queue[T]) push(v T) {
	if len(q.all) == cap(q.all) && q.head >= (len(q.all)+1)/2 {
		n := copy(q.all, q.all[q.head:])
		clear(q.all[n:])
		q.all, q.head = q.all[:n], 0
	}
	q.all = append(q.all, v)
}

// back puts v in front.
func (q *queue[T]) back(v T) {
	if q.head == 0 {
		q.all = append([]T{v}, q.all...)
		return
	}
	q.head--
	q.all[q.head] = v
}
