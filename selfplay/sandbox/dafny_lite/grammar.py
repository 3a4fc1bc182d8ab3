"""The grammar, in lark's notation; the terminals come from `lexer`.

The layers of `expr` are Dafny's: `<==>` binds loosest, then `==>` (right associative) or `<==` (left associative; the
two never mix), then `&&` or `||` (they never mix), comparison chains, sums, products, unary operators. A conditional
expression stands where an operand may and takes all that follows its `else`: the conflict this makes is resolved by
shifting, as Dafny's LL(1) parser does.
"""

GRAMMAR = r"""
header: METHOD NAME LPAR [params] RPAR RETURNS LPAR params RPAR clause*
params: param (COMMA param)*
param: NAME COLON type
?type: INT | NAT | BOOL
clause: REQUIRES expr -> requires
      | ENSURES expr -> ensures

block: LBRACE statement* RBRACE
?statement: VAR local (COMMA local)* [ASSIGN exprs] SEMI -> declare
          | names ASSIGN exprs SEMI -> assign
          | if_statement
          | WHILE expr loop_clause* block -> while_loop
          | RETURN [exprs] SEMI -> return_
          | ASSERT expr SEMI -> assert_
          | block
if_statement: IF expr block [ELSE (block | if_statement)]
local: NAME [COLON type]
names: NAME (COMMA NAME)*
loop_clause: INVARIANT expr -> invariant
           | DECREASES exprs -> decreases
exprs: expr (COMMA expr)*

?expr: implication
     | expr IFF implication -> binary
?implication: logic
            | logic IMPLIES implies_tail -> binary
            | explies
?implies_tail: logic
             | logic IMPLIES implies_tail -> binary
explies: logic EXPLIES logic -> binary
       | explies EXPLIES logic -> binary
?logic: relation
      | conjunction
      | disjunction
conjunction: relation AND relation -> binary
           | conjunction AND relation -> binary
disjunction: relation OR relation -> binary
           | disjunction OR relation -> binary
?relation: sum
         | sum (relop sum)+ -> chain
?relop: EQ | NE | LT | LE | GT | GE
?sum: product
    | sum ADD product -> binary
    | sum SUB product -> binary
?product: unary
        | product MUL unary -> binary
        | product DIV unary -> binary
        | product MOD unary -> binary
?unary: atom
      | SUB unary -> unary_op
      | NOT unary -> unary_op
?atom: INTEGER -> integer
     | TRUE -> true
     | FALSE -> false
     | NAME -> variable
     | LPAR expr RPAR -> parenthesised
     | IF expr THEN expr ELSE expr -> conditional
"""
