package main

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

func TestEverySecondBringsTheSameNumberOfUsers(t *testing.T) {
	arrivals := schedule(7, time.Minute)
	if !slices.IsSorted(arrivals) {
		t.Error("arrivals are not in order")
	}
	var perSecond [60]int
	for _, at := range arrivals {
		perSecond[at/time.Second]++
	}
	for second, n := range perSecond {
		if n != arrivalsPerSecond {
			t.Errorf("%d users in second %d", n, second)
		}
	}
}

func TestArrivalsDependOnTheSeedAlone(t *testing.T) {
	if !slices.Equal(schedule(7, time.Minute), schedule(7, time.Minute)) {
		t.Error("the same seed gave other arrivals")
	}
	if slices.Equal(schedule(7, time.Minute), schedule(8, time.Minute)) {
		t.Error("another seed gave the same arrivals")
	}
}

func TestReasonIsTheKindOrTheStatus(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   string
	}{
		{http.StatusGatewayTimeout, "deadline_exceeded\n", "deadline_exceeded"},
		{http.StatusServiceUnavailable, `{"status":503,"kind":"expired_on_arrival","not_started":true}`, "expired_on_arrival"},
		{http.StatusServiceUnavailable, "overloaded\n", "overloaded"},
		{http.StatusInternalServerError, "failed\n", "failed"},
		{http.StatusInternalServerError, "the connection failed\n", "500 Internal Server Error"},
		{http.StatusBadGateway, "order: after 3 attempts: status 502\n", "502 Bad Gateway"},
		{http.StatusServiceUnavailable, "", "503 Service Unavailable"},
	} {
		if got := reasonIn(c.status, c.body); got != c.want {
			t.Errorf("%d %q: %q, want %q", c.status, c.body, got, c.want)
		}
	}
}
