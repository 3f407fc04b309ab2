package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

const longestLine = 64 << 20

// converted is one object as protobuf, and the JSON of what its receiver has.
type converted struct {
	Object   json.RawMessage `json:"object"`
	Protobuf string          `json:"protobuf"` // base64
}

// convertProtobuf reads one object a line, as JSON or with -decode as base64 of protobuf, and prints both its forms.
func convertProtobuf() error {
	isBinary := flag.Bool("decode", false, "the lines are base64 of protobuf")
	flag.Parse()
	scheme := knownTypes()
	both := forms{
		json:     jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme, scheme, jsonserializer.SerializerOptions{}),
		protobuf: protobuf.NewSerializer(scheme, scheme),
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longestLine)
	answers := json.NewEncoder(os.Stdout)
	for number := 1; lines.Scan(); number++ {
		answer, err := both.convert(lines.Bytes(), *isBinary)
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

type forms struct{ json, protobuf runtime.Serializer }

func (f forms) convert(line []byte, isBinary bool) (converted, error) {
	var body []byte
	var err error
	if isBinary {
		body, err = base64.StdEncoding.DecodeString(string(line))
	} else {
		body, err = recode(line, f.json, f.protobuf)
	}
	if err != nil {
		return converted{}, err
	}
	// Back to JSON through the binary form, which cannot tell an empty list from none.
	text, err := recode(body, f.protobuf, f.json)
	return converted{Object: text, Protobuf: base64.StdEncoding.EncodeToString(body)}, err
}

func recode(body []byte, from runtime.Decoder, to runtime.Encoder) ([]byte, error) {
	object, _, err := from.Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	var written bytes.Buffer
	err = to.Encode(object, &written)
	return written.Bytes(), err
}
