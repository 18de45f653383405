//go:build !race

package apisurface

const underRace = false
