package sddl

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"O:BAG:SYD:PAI(A;OICI;FA;;;BA)(D;;0x1200a9;;;S-1-5-21-1-2-3-1000)": "",
		"D:":                    "",
		"O:S-1-5-21-1-2-3-500":  "",
		"S:AR(AU;SAFA;FW;;;WD)": "",
		"D:(A;;GAGR;;;WD)":      "",
		"D:P(A;;RCSDWDWO;;;CO)S:AI(ML;;CC;;;S-1-16-4096)": "D:P(A;;RCSDWDWO;;;CO)S:AI(ML;;CC;;;S-1-16-4096)",
		"D:(A;;0x1f01ff;;;S-1-5-32-544)":                  "D:(A;;FA;;;BA)",
		"D:(A;;2032127;;;S-1-1-0)O:SY":                    "O:SYD:(A;;FA;;;WD)",
	} {
		if want == "" {
			want = text
		}
		d, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := d.Text(); got != want || err != nil {
			t.Errorf("%s became %s, %v", text, got, err)
		}
		b, err := d.Encode()
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		back, err := Decode(b)
		if err != nil || !reflect.DeepEqual(back, d) {
			t.Errorf("%s: decoded %+v, %v", text, back, err)
		}
	}
	for _, text := range []string{
		"X:BA", "O", "O:BAO:BA", "O:ZZ", "O:S-2-5", "O:S-1-5-x", "D:Q", "D:(A;;FA;;;BA", "D:(A;;FA;;BA)", "D:(Z;;FA;;;BA)",
		"D:(A;QQ;FA;;;BA)", "D:(A;;Q;;;BA)", "D:(A;;0x1ffffffff;;;BA)", "D:(OA;;FA;1-2-3;;BA)", "O:S-1-5-1-2-3-4-5-6-7-8-9-10-11-12-13-14-15-16",
	} {
		if _, err := Parse(text); !errors.Is(err, ErrSyntax) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestBinary decodes and encodes a descriptor that Samba sent.
func TestBinary(t *testing.T) {
	sid := []byte{1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 0x20, 2, 0, 0}
	b := []byte{1, 0, 4, 0x80, 20, 0, 0, 0, 36, 0, 0, 0, 0, 0, 0, 0, 52, 0, 0, 0}
	b = append(append(b, sid...), sid...)
	b = append(b, 2, 0, 32, 0, 1, 0, 0, 0, 0, 3, 24, 0, 1, 0, 0, 0)
	b = append(b, sid...)
	d, err := Decode(b)
	if err != nil || d.String() != "O:BAG:BAD:(A;OICI;CC;;;BA)" {
		t.Fatalf("%v, %v", d, err)
	}
	for cut := range b {
		if _, err := Decode(b[:cut]); !errors.Is(err, ErrMalformed) {
			t.Errorf("cut to %d bytes: %v", cut, err)
		}
	}
	got, err := d.Encode()
	if err != nil || !bytes.Equal(got, b) {
		t.Errorf("encoded %x, want %x, %v", got, b, err)
	}
	// An object entry is preserved in the binary form, and refused in text.
	d.DACL.Entries = append(d.DACL.Entries, ACE{Type: 5, Raw: []byte{5, 0, 8, 0, 1, 2, 3, 4}})
	got, err = d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Decode(got)
	if err != nil || !reflect.DeepEqual(back, d) {
		t.Errorf("%+v, %v", back, err)
	}
	if _, err := d.Text(); !errors.Is(err, ErrSyntax) {
		t.Error(err)
	}
	d.DACL.Entries[1].Raw = nil
	if _, err := d.Encode(); !errors.Is(err, ErrSyntax) {
		t.Error(err)
	}
}

func FuzzDecode(f *testing.F) {
	d, _ := Parse("O:BAG:SYD:PAI(A;OICI;FA;;;BA)S:(AU;SA;FW;;;WD)")
	b, _ := d.Encode()
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		out, err := d.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := Decode(out)
		if err != nil || back.String() != d.String() {
			t.Fatalf("%v, then %v, %v", d, back, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("O:BAG:SYD:PAI(A;OICI;FA;;;BA)S:(AU;SA;FW;;;WD)")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrSyntax) {
				t.Fatal(err)
			}
			return
		}
		s, err := d.Text()
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse(s)
		if err != nil || !reflect.DeepEqual(back, d) {
			t.Fatalf("%q became %q: %v", text, s, err)
		}
	})
}
