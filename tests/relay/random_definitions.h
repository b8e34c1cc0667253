// The text that random programs begin with.
#pragma once

namespace lathe::relay {

/// What every program may use, besides the prelude: data that holds tuples, functions and references,
/// and each other; functions that call each other, and that are polymorphic in types, in shapes and in base
/// types.
inline constexpr const char* kDefinitions = R"(
import "list"
import "function"
import "nat"
type Thing { Pair((int32, float32), bool), Act(fn (int32) -> int32), Cell(ref(int32)), Many(List[Thing]), Nothing }
type Tree[A] { Leaf(A), Node(Tree[A], (A, Tree[A])) }
def @swap[A, B](%p: (A, B)) -> (B, A) { (%p.1, %p.0) }
def @pick[A](%c: bool, %a: A, %b: A) -> A { if (%c) { %a } else { %b } }
def @twice[A](%f: fn (A) -> A, %x: A) -> A { %f(%f(%x)) }
def @leaves[A](%t: Tree[A]) -> List[A] {
  match (%t) { Leaf(%x) => Cons(%x, Nil), Node(%l, (%x, %r)) => @concat(@leaves(%l), Cons(%x, @leaves(%r))) }
}
type Rose[A] { Rose(A, Forest[A]) }
type Forest[A] { Bare, Grown((Rose[A], Forest[A])) }
def @prune[A, B](%f: fn (A) -> B, %r: Rose[A]) -> List[B] {
  match (%r) { Rose(%x, Grown((Rose(%y, Bare), %rest))) => Cons(%f(%x), Cons(%f(%y), @prunings(%f, %rest))),
               Rose(%x, %all) => Cons(%f(%x), @prunings(%f, %all)) }
}
def @prunings[A, B](%f: fn (A) -> B, %a: Forest[A]) -> List[B] {
  match (%a) { Bare => Nil, Grown((%r, %rest)) => @concat(@prune(%f, %r), @prunings(%f, %rest)) }
}
def @sum3[S: Shape, T: BaseType](%x: Tensor[S, T], %y: Tensor[S, T], %z: Tensor[S, T]) -> Tensor[S, T] { %x + %y + %z }
def @plus[S: Shape, U: Shape, T: BaseType](%x: Tensor[S, T], %y: Tensor[U, T]) -> Tensor[S, T]
  where (add(Tensor[S, T], Tensor[U, T]) -> Tensor[S, T]) { %x + %y }
)";

}  // namespace lathe::relay
