package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// table is printed as markdown, ready for docs/performance.md, with the columns in line for who reads it in a terminal.
type table struct{ rows [][]string }

func newTable(head ...string) *table {
	return &table{rows: [][]string{head}}
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) print() {
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for i, row := range t.rows {
		printRow(row, widths)
		if i == 0 {
			fmt.Println("|" + strings.Repeat(" - |", len(widths)))
		}
	}
}

// printRow puts the first cell to the left, as it is a name, and the others, which are numbers, to the right.
func printRow(row []string, widths []int) {
	fmt.Print("|")
	for i, width := range widths {
		cell := "-" // a row may be short
		if i < len(row) {
			cell = row[i]
		}
		if i == 0 {
			width = -width
		}
		fmt.Printf(" %*s |", width, cell)
	}
	fmt.Println()
}

// whole is a number without a fraction, its thousands apart.
func whole(v float64) string {
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// micros are microseconds, with three digits.
func micros(d time.Duration) string {
	us := float64(d) / float64(time.Microsecond)
	if us < 10 {
		return fmt.Sprintf("%.1f", us)
	}
	return whole(us)
}

// short has three digits.
func short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < 100*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}
