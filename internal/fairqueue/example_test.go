package fairqueue_test

import (
	"fmt"

	"github.com/gopcp/pmcd/internal/fairqueue"
)

// A user with three requests delays the request of another user by one only.
func ExampleQueue() {
	alice := fairqueue.Key{Group: fairqueue.Group{ID: 1000}}
	bob := fairqueue.Key{Group: fairqueue.Group{ID: 1001}}

	var q fairqueue.Queue[string]
	for _, request := range []string{"alice 1", "alice 2", "alice 3"} {
		q.Push(&fairqueue.Item[string]{Value: request}, &alice)
	}
	q.Push(&fairqueue.Item[string]{Value: "bob 1"}, &bob)

	for it := q.Pop(); it != nil; it = q.Pop() {
		fmt.Println(it.Value)
	}
	// Output:
	// alice 1
	// bob 1
	// alice 2
	// alice 3
}

// Two calls may run at a time. The third begins when one of them has ended.
func ExampleLimiter() {
	l := fairqueue.NewLimiter(2)
	key := fairqueue.Key{Group: fairqueue.Group{ID: 1000}}
	var a, b, c fairqueue.Use
	fmt.Println(l.Start(&a, 1, &key), l.Start(&b, 1, &key), l.Start(&c, 1, &key))

	a.End()
	<-c.Begun()
	fmt.Println("used:", l.Used(), "waiting:", l.Waiting())
	b.End()
	c.End()
	// Output:
	// true true false
	// used: 2 waiting: 0
}
