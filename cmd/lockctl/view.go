package main

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
)

// view is what lockctl prints of a message. V is a struct. Each of its fields has the value of the message's field that
// the tag "of" names, or else the JSON key without _ms. An embedded struct without tags has other fields of the same
// message; one with "of" has those of the message in that field.
//
// The keys are part of what lockctl promises: they are never renamed. What nobody knows is empty, 0 or null, and an
// empty list is [].
func view[V any](m proto.Message) (v V) {
	fill(reflect.ValueOf(&v).Elem(), m.ProtoReflect())
	return v
}

func fill(to reflect.Value, m protoreflect.Message) {
	for f, v := range to.Fields() {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		name := cmp.Or(f.Tag.Get("of"), strings.TrimSuffix(key, "_ms"))
		if name == "" {
			fill(v, m)
		} else if field := m.Descriptor().Fields().ByName(protoreflect.Name(name)); field != nil {
			set(v, field, m)
		}
	}
}

// set sets a value to that of a message's field.
func set(to reflect.Value, f protoreflect.FieldDescriptor, m protoreflect.Message) {
	from := m.Get(f)
	switch {
	case f.IsMap():
		to.Set(reflect.MakeMap(to.Type()))
		for k, v := range from.Map().Range {
			to.SetMapIndex(reflect.ValueOf(k.String()), reflect.ValueOf(v.String()))
		}
	case f.IsList():
		to.Set(reflect.MakeSlice(to.Type(), from.List().Len(), from.List().Len()))
		for i := range to.Len() {
			if item := from.List().Get(i); f.Message() != nil {
				fill(to.Index(i), item.Message())
			} else {
				to.Index(i).Set(reflect.ValueOf(item.Interface()))
			}
		}
	case f.Enum() != nil:
		to.SetString(nameIn(f.Enum().Values(), from.Enum()))
	case to.Type() == reflect.TypeFor[*millis]() && m.Has(f):
		to.Set(reflect.ValueOf(new(millis(from.Message().Interface().(*durationpb.Duration).AsDuration().Milliseconds()))))
	case to.Kind() == reflect.Struct:
		fill(to, from.Message())
	case f.Message() == nil:
		to.Set(reflect.ValueOf(from.Interface()))
	}
}

// nameIn is the name of an enum's value in lower case, without the prefix that all of them have. It is empty for 0 and
// for a value that only a newer server knows.
func nameIn(values protoreflect.EnumValueDescriptors, n protoreflect.EnumNumber) string {
	v := values.ByNumber(n)
	if v == nil || n == 0 {
		return ""
	}
	prefix := strings.TrimSuffix(string(values.ByNumber(0).Name()), "UNSPECIFIED")
	return strings.ToLower(strings.TrimPrefix(string(v.Name()), prefix))
}

// millis is a time in JSON.
type millis int64

func (m millis) String() string { return duration(time.Duration(m) * time.Millisecond) }

// duration is a time as a person writes it: 24h and 1m30s, not 24h0m0s. Times above a second are rounded to tenths.
func duration(d time.Duration) string {
	unit := time.Millisecond
	switch {
	case d >= time.Minute:
		unit = time.Second
	case d >= time.Second:
		unit = 100 * time.Millisecond
	}
	text := d.Round(unit).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// replicasView is how many replicas were asked, and how many of them did not answer: what those know is missing.
type replicasView struct {
	Asked    uint32 `json:"replicas" of:"replicas_asked"`
	Answered uint32 `json:"-" of:"replicas_answered"`
	Silent   uint32 `json:"replicas_silent"`
}

func (r *replicasView) count() { r.Silent = r.Asked - r.Answered }

// missing says what is missing, if anything is.
func (r replicasView) missing() string {
	if r.Silent == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d replicas did not answer: what they know is missing", r.Silent, r.Asked)
}

// silence is a replicasView that also says why the store could not be asked, if so: then the rest is what replicas
// remember.
type silence struct {
	replicasView

	StoreError string `json:"store_error"`
}

// pages joins the lists in all pages of an answer; list is the name of their field.
func pages[V any](list protoreflect.Name, next func(token string) (proto.Message, error)) ([]V, silence, error) {
	all, sum := []V{}, silence{}
	for token := ""; ; {
		resp, err := next(token)
		page, m := view[silence](resp), resp.ProtoReflect()
		page.count()
		sum.StoreError = cmp.Or(sum.StoreError, page.StoreError)
		sum.Asked, sum.Silent = max(sum.Asked, page.Asked), max(sum.Silent, page.Silent)
		fields := m.Descriptor().Fields()
		var more []V
		set(reflect.ValueOf(&more).Elem(), fields.ByName(list), m)
		all = append(all, more...)
		if token = m.Get(fields.ByName("next_page_token")).String(); err != nil || token == "" {
			return all, sum, err
		}
	}
}
