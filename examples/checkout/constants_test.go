package main

import (
	"math/rand/v2"
	"testing"
	"time"
)

// These tests hold the rules that stand at the top of constants.go, so that no figure can be bought
// with spare capacity.

// busy returns which share of its time a pool of n workers is busy when each arrival takes service.
func busy(service time.Duration, n int) float64 {
	return arrivalsPerSecond * service.Seconds() / float64(n)
}

func meanSlowService() time.Duration {
	usual, tail := (slowMin+slowMax)/2, (tailMin+tailMax)/2
	return (usual*(100-tailPercent) + tail*tailPercent) / 100
}

func TestHealthyWarehouseIsAtMostAFifthBusy(t *testing.T) {
	if b := busy(healthyService, warehouseWorkers.workers); b > 0.20 {
		t.Errorf("healthy, the warehouse is %.0f%% busy", 100*b)
	}
}

func TestSlowWarehouseCanJustCarryTheUnamplifiedLoad(t *testing.T) {
	if b := busy(meanSlowService(), warehouseWorkers.workers); b < 0.85 || b > 0.97 {
		t.Errorf("under the fault, the warehouse is %.1f%% busy with one call per checkout", 100*b)
	}
}

func TestOrderThreadsRunOutOnlyByRetries(t *testing.T) {
	if b := busy(slowMax+paymentService, orderThreads.workers); b > 0.5 {
		t.Errorf("one order per checkout keeps the threads %.0f%% busy under the fault", 100*b)
	}
}

func TestTailStandsApart(t *testing.T) {
	if slowMax > 2600*time.Millisecond {
		t.Errorf("usual reads take up to %v", slowMax)
	}
	if tailMin <= inventoryToWarehouse.timeout || tailMin <= edgeBudget {
		t.Errorf("reads of the tail take %v or more, so a client may get to see one", tailMin)
	}
	const n = 100_000
	r, tail := rand.New(rand.NewPCG(1, 1)), 0
	for range n {
		switch d := slowServiceTime(r); {
		case d >= slowMin && d < slowMax:
		case d >= tailMin && d < tailMax:
			tail++
		default:
			t.Fatalf("a read takes %v", d)
		}
	}
	if share := float64(tail) / n; share < 0.028 || share > 0.032 {
		t.Errorf("%.1f%% of reads are in the tail", 100*share)
	}
}

func TestIncidentsWorstCaseIs48Calls(t *testing.T) {
	if n := gatewayToOrder.attempts * orderToInventory.attempts * inventoryToWarehouse.attempts; n != 48 {
		t.Errorf("one checkout can make %d calls to the warehouse", n)
	}
}

func TestSlushAndUsefulMinimumShrinkWithThePace(t *testing.T) {
	const scale = 10
	real, fast := hopSlush(1), hopSlush(scale)
	if fast.Share != real.Share || fast.Floor != real.Floor/scale || fast.Cap != real.Cap/scale {
		t.Errorf("at scale %d slush is %+v instead of a tenth of %+v", scale, fast, real)
	}
	slow, quick := routeConfig(1), routeConfig(scale)
	if quick.Max != slow.Max/scale || quick.Useful != slow.Useful/scale {
		t.Errorf("at scale %d a route has %+v instead of a tenth of %+v", scale, quick, slow)
	}
	for left, want := range map[time.Duration]time.Duration{
		edgeBudget:             slushCap,
		500 * time.Millisecond: 25 * time.Millisecond,
		10 * time.Millisecond:  slushFloor,
	} {
		if got := real.Of(left); got != want {
			t.Errorf("slush of %v is %v, want %v", left, got, want)
		}
	}
}
