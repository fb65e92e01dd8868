package main

import (
	"bytes"
	"encoding/json"
	"go/token"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tarn-go/tarn/vet"
	"github.com/tarn-go/tarn/vet/internal/driver"
)

// The part of SARIF 2.1.0 that findings need. The names are the specification's.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string       `json:"id"`
		ShortDescription sarifMessage `json:"shortDescription"`
		HelpURI          string       `json:"helpUri"`
	}
	sarifResult struct {
		RuleID           string          `json:"ruleId"`
		RuleIndex        int             `json:"ruleIndex"`
		Level            string          `json:"level"`
		Message          sarifMessage    `json:"message"`
		Locations        []sarifLocation `json:"locations"`
		RelatedLocations []sarifLocation `json:"relatedLocations,omitempty"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifLocation struct {
		PhysicalLocation sarifPlace    `json:"physicalLocation"`
		Message          *sarifMessage `json:"message,omitempty"`
	}
	sarifPlace struct {
		ArtifactLocation sarifFile   `json:"artifactLocation"`
		Region           sarifRegion `json:"region"`
	}
	sarifFile struct {
		URI       string `json:"uri"`
		URIBaseID string `json:"uriBaseId,omitempty"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
	}
)

// rules are the kinds of findings.
func rules() []sarifRule {
	return []sarifRule{
		rule("leak", "a reference that a call returned is neither freed nor handed over"),
		rule("use", "memory is used after it was given back, or after a call that took ownership"),
		rule("double", "memory is given back a second time"),
		rule("escape", "bytes outlive the reference that they belong to"),
		rule("copy", "a container of references is copied by value and used again"),
		rule("write", "bytes are written while another reference to them is alive"),
		rule("contract", "a doc comment and the body disagree about who frees"),
		rule("comment", "a comment does not say who frees"),
		rule("directive", "a directive has no reason, or allows nothing"),
	}
}

func rule(id, text string) sarifRule {
	return sarifRule{ID: id, ShortDescription: sarifMessage{text}, HelpURI: vet.Analyzer.URL + "#what-it-finds-and-what-to-do"}
}

// printSARIF writes the findings as code hosts read them. The names of files below root, the directory of the repository or
// module, are relative to it.
func printSARIF(out io.Writer, findings []driver.Finding, root string) error {
	known := rules()
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: vet.Analyzer.Name, InformationURI: vet.Analyzer.URL, Rules: known}
	files := sources{root: root, lines: map[string][][]byte{}}
	for _, f := range findings {
		r := sarifResult{RuleID: f.Category, Level: "warning", Message: sarifMessage{f.Message}, Locations: []sarifLocation{files.location(f.Position)}}
		r.RuleIndex = slices.IndexFunc(known, func(r sarifRule) bool { return r.ID == f.Category })
		for _, rel := range f.Related {
			at := files.location(f.Fset.Position(rel.Pos))
			at.Message = &sarifMessage{rel.Message}
			r.RelatedLocations = append(r.RelatedLocations, at)
		}
		run.Results = append(run.Results, r)
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "\t")
	return enc.Encode(sarifLog{
		Schema:  "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
		Version: "2.1.0",
		Runs:    []sarifRun{run},
	})
}

// sources are the files of findings. Their lines are needed because Go counts columns in bytes, and SARIF in characters.
type sources struct {
	root  string
	lines map[string][][]byte
}

func (s *sources) location(p token.Position) sarifLocation {
	var at sarifPlace
	at.Region = sarifRegion{max(p.Line, 1), s.column(p)}
	if rel, err := filepath.Rel(s.root, p.Filename); err == nil && filepath.IsLocal(rel) {
		at.ArtifactLocation = sarifFile{(&url.URL{Path: filepath.ToSlash(rel)}).String(), "%SRCROOT%"}
	} else {
		path := filepath.ToSlash(p.Filename)
		if !strings.HasPrefix(path, "/") {
			path = "/" + path // a volume of Windows
		}
		at.ArtifactLocation = sarifFile{URI: (&url.URL{Scheme: "file", Path: path}).String()}
	}
	return sarifLocation{PhysicalLocation: at}
}

// column is a position's column in characters; 0, which is left out, if it is not known.
func (s *sources) column(p token.Position) int {
	lines, ok := s.lines[p.Filename]
	if !ok {
		if data, err := os.ReadFile(p.Filename); err == nil {
			lines = bytes.Split(data, []byte("\n"))
		}
		s.lines[p.Filename] = lines
	}
	if p.Line < 1 || p.Line > len(lines) || p.Column < 1 || p.Column > len(lines[p.Line-1])+1 {
		return 0
	}
	return utf8.RuneCount(lines[p.Line-1][:p.Column-1]) + 1
}
