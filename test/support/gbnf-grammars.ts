/** Grammars for tests: those of llama.cpp (MIT, grammars/), and small ones of each construct. */
export const GBNF_GRAMMARS: readonly (readonly [string, string])[] = [
  [
    'llama.cpp arithmetic',
    String.raw`root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
`,
  ],
  [
    'llama.cpp chess',
    String.raw`# Specifies chess moves as a list in algebraic notation, using PGN conventions

# Force first move to "1. ", then any 1-2 digit number after, relying on model to follow the pattern
root    ::= "1. " move " " move "\n" ([1-9] [0-9]? ". " move " " move "\n")+
move    ::= (pawn | nonpawn | castle) [+#]?

# piece type, optional file/rank, optional capture, dest file & rank
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]

# optional file & capture, dest file & rank, optional promotion
pawn    ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?

castle  ::= "O-O" "-O"?
`,
  ],
  [
    'llama.cpp english',
    String.raw`# note: this might be incomplete, mostly an example
root        ::= en-char+ ([ \t\n] en-char+)*
en-char     ::= letter | digit | punctuation
letter      ::= [a-zA-Z]
digit       ::= [0-9]
punctuation ::= [!"#$%&'()*+,-./:;<=>?@[\\\]^_${'`'}{|}~]
`,
  ],
  [
    'llama.cpp japanese',
    String.raw`# A probably incorrect grammar for Japanese
root        ::= jp-char+ ([ \t\n] jp-char+)*
jp-char     ::= hiragana | katakana | punctuation | cjk
hiragana    ::= [ぁ-ゟ]
katakana    ::= [ァ-ヿ]
punctuation ::= [、-〾]
cjk         ::= [一-鿿]
`,
  ],
  [
    'llama.cpp json',
    String.raw`root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws

# Optional space: by convention, applied in this grammar after literal chars when allowed
ws ::= | " " | "\n" [ \t]{0,20}
`,
  ],
  [
    'llama.cpp json_arr',
    String.raw`# This is the same as json.gbnf but we restrict whitespaces at the end of the root array
# Useful for generating JSON arrays

root   ::= arr
value  ::= object | array | string | number | ("true" | "false" | "null") ws

arr  ::=
  "[\n" ws (
            value
    (",\n" ws value)*
  )? "]"

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [1-9] [0-9]{0,15})? ws

# Optional space: by convention, applied in this grammar after literal chars when allowed
ws ::= | " " | "\n" [ \t]{0,20}
`,
  ],
  [
    'llama.cpp list',
    String.raw`root ::= item+

# Excludes various line break characters
item ::= "- " [^\r\n\x0b\x0c\x85\u2028\u2029]+ "\n"
`,
  ],
  [
    'llama.cpp c',
    String.raw`root ::= (declaration)*

declaration ::= dataType identifier "(" parameter? ")" "{" statement* "}"

dataType  ::= "int" ws | "float" ws | "char" ws
identifier ::= [a-zA-Z_] [a-zA-Z_0-9]*

parameter ::= dataType identifier

statement ::=
    ( dataType identifier ws "=" ws expression ";" ) |
    ( identifier ws "=" ws expression ";" ) |
    ( identifier ws "(" argList? ")" ";" ) |
    ( "return" ws expression ";" ) |
    ( "while" "(" condition ")" "{" statement* "}" ) |
    ( "for" "(" forInit ";" ws condition ";" ws forUpdate ")" "{" statement* "}" ) |
    ( "if" "(" condition ")" "{" statement* "}" ("else" "{" statement* "}")? ) |
    ( singleLineComment ) |
    ( multiLineComment )

forInit ::= dataType identifier ws "=" ws expression | identifier ws "=" ws expression
forUpdate ::= identifier ws "=" ws expression

condition ::= expression relationOperator expression
relationOperator ::= ("<=" | "<" | "==" | "!=" | ">=" | ">")

expression ::= term (("+" | "-") term)*
term ::= factor(("*" | "/") factor)*

factor ::= identifier | number | unaryTerm | funcCall | parenExpression
unaryTerm ::= "-" factor
funcCall ::= identifier "(" argList? ")"
parenExpression ::= "(" ws expression ws ")"

argList ::= expression ("," ws expression)*

number ::= [0-9]+

singleLineComment ::= "//" [^\n]* "\n"
multiLineComment ::= "/*" ( [^*] | ("*" [^/]) )* "*/"

ws ::= ([ \t\n]+)
`,
  ],
  [
    'left recursion',
    String.raw`root ::= sum
sum ::= sum [+-] num | num
num ::= [0-9]{1,3}
`,
  ],
  [
    'ambiguity',
    String.raw`root ::= e
e ::= e "+" e | e "*" e | "1" | "(" e ")"
`,
  ],
  [
    'nullable loops',
    String.raw`root ::= ("" | "a" | ("b"*)*)* "c"?
`,
  ],
  [
    'counts',
    String.raw`root ::= "a"{2} ("b" "c"){1,3} [d]{2,} "e"{0,2} "f"{0}
`,
  ],
  [
    'escapes',
    String.raw`root ::= "\x41\u00e9\U0001F4A9\t\"\\" [\[\]\\\u0416-\u0418-]+
`,
  ],
  [
    'negated classes',
    String.raw`root ::= "<" [^>\n\u00e9]* ">" [^a-zA-Z]
`,
  ],
  [
    'any character',
    String.raw`root ::= . .+ "!"
`,
  ],
  [
    'groups over lines',
    String.raw`root ::= (
  "a" # first
  | "b"

  | (
 "c" "d"
)
)+
# the end`,
  ],
  [
    'alternatives over lines',
    String.raw`root ::= "a" |
  "b" |
  other
other ::= "c"
`,
  ],
  [
    'palindromes',
    String.raw`root ::= "a" root "a" | "b" root "b" | "c"
`,
  ],
  [
    'nested quantifiers',
    String.raw`root ::= (("a"? "b"){2}){1,2} ("c"+)?
`,
  ],
  [
    'an empty rule',
    String.raw`root ::= "a" nothing "b"
nothing ::= ""

rest ::= "x"
`,
  ],
  [
    'root used by itself',
    String.raw`root ::= "[" (root ("," root)*)? "]"
`,
  ],
];
