// Checks the types of the package in this folder for the system that GOOS names, from sources alone. It finds what a
// build finds, and need not compile the standard library for that system first.
package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
)

func main() {
	if err := check(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func check() error {
	found, err := build.ImportDir(".", 0)
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range found.GoFiles {
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	config := types.Config{
		Importer: importer.ForCompiler(set, "source", nil),
		Sizes:    types.SizesFor("gc", build.Default.GOARCH),
	}
	_, err = config.Check(found.Name, set, files, nil)
	return err
}
