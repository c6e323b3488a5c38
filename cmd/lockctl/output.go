package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

const (
	outputText = "text"
	outputJSON = "json"
)

func checkOutput(format string) error {
	if format != outputText && format != outputJSON {
		return usagef("--output must be %s or %s, not %q", outputText, outputJSON, format)
	}
	return nil
}

// shown is what a command prints, nothing if it is empty.
type shown struct {
	json any             // with -o json
	text func(p *screen) // else; nil for JSON in any case
	// missing is told on stderr, and code is the exit code.
	missing silence
	code    int
}

func (o *options) show(cmd *cobra.Command, v shown) error {
	var err error
	switch {
	case v.json == nil:
	case o.output == outputJSON || v.text == nil:
		err = printJSON(cmd.OutOrStdout(), v.json)
	default:
		var p screen
		v.text(&p)
		_, err = p.WriteTo(cmd.OutOrStdout())
	}
	if why := v.missing.StoreError; err == nil && why != "" {
		err = printLine(cmd.ErrOrStderr(), "%s: this is what the replica remembers, and what others know is missing", why)
	}
	if text := v.missing.missing(); err == nil && text != "" {
		err = printLine(cmd.ErrOrStderr(), "%s", text)
	}
	if err == nil && v.code != 0 {
		err = failure{code: v.code}
	}
	return err
}

// screen is text for people. All of it is made safe for a terminal.
type screen struct{ bytes.Buffer }

func (p *screen) line(format string, args ...any) { _ = printLine(p, format, args...) } // a Buffer takes everything

// table prints rows in columns. An unknown value is a dash. A row that begins with an empty text continues the row
// before.
func (p *screen) table(rows [][]any) {
	tw := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, v := range row {
			if at, ok := v.(*millis); ok && at == nil {
				v = ""
			}
			if cells[i] = cell(fmt.Sprint(v)); cells[i] == "" && cells[0] != "" {
				cells[i] = "-"
			}
		}
		_, _ = io.WriteString(tw, strings.Join(cells, "\t")+"\n")
	}
	_ = tw.Flush()
}

// list prints a table with a row for each thing, below a title for each column.
func list[T any](p *screen, things []T, row func(T) []any, titles ...any) {
	rows := [][]any{titles}
	for _, t := range things {
		rows = append(rows, row(t))
	}
	p.table(rows)
}

// counted is a number of things, such as 1 permit or 2 permits.
func counted[N int | uint32](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
