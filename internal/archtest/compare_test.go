package archtest

import (
	"go/ast"
	"go/token"
	"testing"
)

// What is sorted is compared, not subtracted: a difference may be more than an int can be, on a machine of 32 bits
// already that of two times 2.2 s apart.
func TestNothingIsComparedBySubtraction(t *testing.T) {
	for _, f := range goFiles(t) {
		ast.Inspect(f.code, func(n ast.Node) bool {
			if lit, ok := n.(*ast.FuncLit); ok && subtracts(lit) {
				t.Errorf("%s: a function that compares subtracts: use cmp.Compare", position(n.Pos()))
			}
			return true
		})
	}
}

// subtracts says whether a function of two things returns a difference, as an int.
func subtracts(f *ast.FuncLit) (found bool) {
	if f.Type.Results == nil || f.Type.Results.NumFields() != 1 || f.Type.Params.NumFields() != 2 {
		return false
	}
	if of, ok := f.Type.Results.List[0].Type.(*ast.Ident); !ok || of.Name != "int" {
		return false
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		r, ok := n.(*ast.ReturnStmt)
		if !ok || len(r.Results) != 1 {
			return true
		}
		e := r.Results[0]
		if call, is := e.(*ast.CallExpr); is && len(call.Args) == 1 {
			if of, isName := call.Fun.(*ast.Ident); isName && of.Name == "int" {
				e = call.Args[0]
			}
		}
		minus, is := e.(*ast.BinaryExpr)
		found = found || is && minus.Op == token.SUB
		return true
	})
	return found
}
