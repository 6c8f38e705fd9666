import type { Value } from './values.js';

export type Expression =
  | { readonly kind: 'constant'; readonly value: Value }
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'list' | 'tuple' | 'concat'; readonly items: readonly Expression[] }
  | { readonly kind: 'dict'; readonly entries: readonly (readonly [key: Expression, value: Expression])[] }
  | { readonly kind: 'attribute'; readonly target: Expression; readonly name: string }
  | { readonly kind: 'item'; readonly target: Expression; readonly index: Expression }
  | {
      readonly kind: 'slice';
      readonly target: Expression;
      readonly start: Expression | undefined;
      readonly stop: Expression | undefined;
      readonly step: Expression | undefined;
    }
  | { readonly kind: 'call'; readonly callee: Expression; readonly args: CallArguments }
  | { readonly kind: 'filter'; readonly name: string; readonly target: Expression; readonly args: CallArguments }
  | { readonly kind: 'test'; readonly name: string; readonly target: Expression; readonly args: CallArguments }
  | { readonly kind: 'unary'; readonly operator: '-' | '+' | 'not'; readonly operand: Expression }
  | { readonly kind: 'binary'; readonly operator: Operator; readonly left: Expression; readonly right: Expression }
  | { readonly kind: 'and' | 'or'; readonly left: Expression; readonly right: Expression }
  | {
      readonly kind: 'compare';
      readonly first: Expression;
      readonly rest: readonly { readonly operator: Comparison; readonly operand: Expression }[];
    }
  | {
      readonly kind: 'choice';
      readonly test: Expression;
      readonly then: Expression;
      readonly otherwise: Expression | undefined;
    };

export type Operator = '+' | '-' | '*' | '/' | '//' | '%' | '**';
export type Comparison = '==' | '!=' | '<' | '<=' | '>' | '>=' | 'in' | 'not in';

export interface CallArguments {
  readonly positional: readonly Expression[];
  readonly named: readonly (readonly [name: string, value: Expression])[];
  /** `*items`: further positional arguments. */
  readonly items?: Expression | undefined;
  /** `**pairs`: further named arguments. */
  readonly pairs?: Expression | undefined;
}

/** Target of a `set` or a `for`. */
export type Target =
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'attribute'; readonly namespace: string; readonly name: string }
  | { readonly kind: 'tuple'; readonly items: readonly Target[] };

export interface Parameter {
  readonly name: string;
  readonly default: Expression | undefined;
}

/** A filter of a `filter` block or a block `set`, to be applied to the text. */
export interface FilterStep {
  readonly name: string;
  readonly args: CallArguments;
}

export type Statement =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'print'; readonly value: Expression }
  | {
      readonly kind: 'if';
      readonly branches: readonly { readonly test: Expression; readonly body: readonly Statement[] }[];
      readonly otherwise: readonly Statement[];
    }
  | {
      readonly kind: 'for';
      readonly target: Target;
      readonly over: Expression;
      readonly condition: Expression | undefined;
      readonly isRecursive: boolean;
      readonly body: readonly Statement[];
      readonly otherwise: readonly Statement[];
    }
  | { readonly kind: 'break' | 'continue' }
  | { readonly kind: 'set'; readonly target: Target; readonly value: Expression }
  | {
      readonly kind: 'setBlock';
      readonly target: Target;
      readonly filters: readonly FilterStep[];
      readonly body: readonly Statement[];
    }
  | {
      readonly kind: 'macro';
      readonly name: string;
      readonly parameters: readonly Parameter[];
      readonly body: readonly Statement[];
    }
  | {
      readonly kind: 'callBlock';
      readonly call: Expression & { readonly kind: 'call' };
      readonly parameters: readonly Parameter[];
      readonly body: readonly Statement[];
    }
  | { readonly kind: 'filterBlock'; readonly filters: readonly FilterStep[]; readonly body: readonly Statement[] }
  | {
      readonly kind: 'with';
      readonly values: readonly (readonly [Target, Expression])[];
      readonly body: readonly Statement[];
    }
  | { readonly kind: 'group'; readonly body: readonly Statement[] };
