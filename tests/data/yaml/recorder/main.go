// Records what kubectl's own reader and printer make of the texts and values of vectors.json.
//
//	go run . < ../vectors.json > new.json && mv new.json ../vectors.json
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	goyaml "go.yaml.in/yaml/v2"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

type read struct {
	Text string `json:"text"`
	// Documents are what is sent to the API server, as its JSON decoder sees them.
	Documents []json.RawMessage `json:"documents"`
	Error     string            `json:"error,omitempty"`
	// Refused tells why Stationmaster refuses a text that kubectl takes. Written by hand.
	Refused string `json:"refused,omitempty"`
}

type write struct {
	Value json.RawMessage `json:"value"`
	YAML  string          `json:"yaml"`
	// Differs tells why Stationmaster prints it differently. Written by hand.
	Differs string `json:"differs,omitempty"`
}

type vectors struct {
	Read  []read  `json:"read"`
	Write []write `json:"write"`
}

// raw keeps the bytes, as kubectl's resource builder does in a runtime.RawExtension.
type raw struct{ bytes []byte }

func (r *raw) UnmarshalJSON(b []byte) error {
	r.bytes = bytes.Clone(b)
	return nil
}

func (r *read) record() {
	r.Documents, r.Error = []json.RawMessage{}, ""
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(r.Text), 4096)
	for {
		var ext raw
		err := decoder.Decode(&ext)
		if errors.Is(err, io.EOF) {
			return
		}
		var value any
		if b := bytes.TrimSpace(ext.bytes); err == nil && len(b) > 0 && !bytes.Equal(b, []byte("null")) {
			if err = utiljson.Unmarshal(b, &value); err == nil {
				r.Documents = append(r.Documents, encode(value))
			}
		}
		if err != nil {
			r.Error = err.Error()
			return
		}
	}
}

func (w *write) record() {
	var value any
	must(utiljson.Unmarshal(w.Value, &value))
	text, err := yaml.Marshal(value)
	must(err)
	w.YAML = string(text)
}

func encode(value any) json.RawMessage {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	must(encoder.Encode(value))
	return bytes.TrimSpace(out.Bytes())
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	// kubectl folds long lines, which is all that this changes.
	goyaml.FutureLineWrap()
	var all vectors
	must(json.NewDecoder(bufio.NewReader(os.Stdin)).Decode(&all))
	fmt.Println(`{"read": [`)
	for i := range all.Read {
		all.Read[i].record()
		fmt.Print(separator(i), string(encode(all.Read[i])))
	}
	fmt.Println("\n], \"write\": [")
	for i := range all.Write {
		all.Write[i].record()
		fmt.Print(separator(i), string(encode(all.Write[i])))
	}
	fmt.Println("\n]}")
}

func separator(i int) string {
	if i == 0 {
		return ""
	}
	return ",\n"
}
