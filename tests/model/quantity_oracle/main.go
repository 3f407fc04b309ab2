// What Kubernetes says about quantities, for tests/model/test_quantity.py to compare with.
//
// Each line of the input is a JSON value. A string is parsed as a quantity. An integer is written as so many
// thousandths and so many units. One JSON object per line is the answer.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"

	"k8s.io/apimachinery/pkg/api/resource"
)

type parsed struct {
	OK        bool   `json:"ok"`
	Error     string `json:"error,omitempty"`
	Canonical string `json:"canonical,omitempty"`
	Number    string `json:"number,omitempty"` // the exact value is number x 10**exponent
	Exponent  int32  `json:"exponent,omitempty"`
	Value     *int64 `json:"value,omitempty"` // absent where it does not fit
	Milli     *int64 `json:"milli,omitempty"`
}

type written struct {
	Milli   string `json:"milli"`
	Decimal string `json:"decimal"`
	Binary  string `json:"binary"`
}

func parse(text string) parsed {
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return parsed{Error: err.Error()}
	}
	number, exponent := quantity.AsCanonicalBytes(nil)
	answer := parsed{OK: true, Canonical: quantity.String(), Number: string(number), Exponent: exponent}
	// Comparing 1e999999999 would write out a billion digits, hence the look at the length first.
	if exponent > 18 || len(number)+int(exponent) > 20 {
		return answer
	}
	if fits(quantity, math.MaxInt64) {
		value := quantity.Value()
		answer.Value = &value
	}
	if fits(quantity, math.MaxInt64/1000) {
		milli := quantity.MilliValue()
		answer.Milli = &milli
	}
	return answer
}

func fits(quantity resource.Quantity, most int64) bool {
	copied := quantity.DeepCopy() // a comparison may change how the quantity is kept
	return copied.CmpInt64(most) <= 0 && copied.CmpInt64(-most) >= 0
}

func write(amount int64) written {
	return written{
		Milli:   resource.NewMilliQuantity(amount, resource.DecimalSI).String(),
		Decimal: resource.NewQuantity(amount, resource.DecimalSI).String(),
		Binary:  resource.NewQuantity(amount, resource.BinarySI).String(),
	}
}

func main() {
	input := json.NewDecoder(bufio.NewReader(os.Stdin))
	output := bufio.NewWriter(os.Stdout)
	defer output.Flush()
	answers := json.NewEncoder(output)
	for input.More() {
		var line json.RawMessage
		if err := input.Decode(&line); err != nil {
			fail(err)
		}
		var text string
		var amount int64
		var err error
		if json.Unmarshal(line, &text) == nil {
			err = answers.Encode(parse(text))
		} else if err = json.Unmarshal(line, &amount); err == nil {
			err = answers.Encode(write(amount))
		}
		if err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
