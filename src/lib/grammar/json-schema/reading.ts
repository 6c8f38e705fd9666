import { Decimal } from '../../json/decimal.js';
import { isJsonNumeric } from '../../json/exact-json.js';
import type { Automata, Automaton } from '../automata.js';
import type { Budget } from '../budget.js';
import { CONSTRAINT_LIMITS } from '../limits.js';
import { type Matching, patternAutomaton } from '../pattern-automaton.js';
import { invalid, unsupported } from '../refusal.js';
import { PatternError } from '../regex-syntax.js';
import type { SchemaNode, SchemaObject } from './document.js';
import { isObject } from './document.js';

/** Reads the keywords of one schema object; what has the wrong type is refused by its pointer. */
export class Reading {
  readonly schema: SchemaObject;

  constructor(
    readonly node: SchemaNode,
    readonly work: Budget,
  ) {
    this.schema = node.schema as SchemaObject;
  }

  has(keyword: string): boolean {
    return Object.hasOwn(this.schema, keyword);
  }

  place(keyword: string) {
    return { at: `${this.node.at}/${keyword}`, keyword };
  }

  wrong(keyword: string, sentence: string) {
    return invalid('json_schema', this.place(keyword), sentence);
  }

  unsupported(keyword: string, sentence: string) {
    return unsupported('json_schema', this.place(keyword), sentence);
  }

  number(keyword: string): Decimal | undefined {
    const value = this.schema[keyword];
    if (value === undefined) return undefined;
    if (!isJsonNumeric(value)) throw this.wrong(keyword, `${keyword} must be a number`);
    return Decimal.of(value);
  }

  /** A number of items, characters or properties. */
  count(keyword: string): number | undefined {
    const value = this.number(keyword);
    if (value === undefined) return undefined;
    if (!value.isInteger || value.isNegative) throw this.wrong(keyword, `${keyword} must be a count of 0 or more`);
    return Number(value.text);
  }

  /** A count that the grammar has to count to. */
  least(keyword: string): number | undefined {
    const value = this.count(keyword);
    if (value === undefined || value <= CONSTRAINT_LIMITS.repetitions) return value;
    throw this.unsupported(
      keyword,
      `${keyword} is ${value}, more than the ${CONSTRAINT_LIMITS.repetitions} we count to`,
    );
  }

  list(keyword: string): readonly unknown[] {
    const value = this.schema[keyword];
    if (value === undefined) return [];
    if (!Array.isArray(value)) throw this.wrong(keyword, `${keyword} must be an array`);
    if (value.length > CONSTRAINT_LIMITS.entries) {
      throw this.unsupported(
        keyword,
        `${keyword} has ${value.length} entries, ${CONSTRAINT_LIMITS.entries} are the most`,
      );
    }
    return value;
  }

  names(keyword: string): readonly string[] {
    return this.list(keyword).map((name) => {
      if (typeof name !== 'string') throw this.wrong(keyword, `${keyword} must be an array of strings`);
      return name;
    });
  }

  map(keyword: string): SchemaObject {
    const value = this.schema[keyword];
    if (value === undefined) return {};
    if (!isObject(value)) throw this.wrong(keyword, `${keyword} must be an object`);
    return value;
  }

  /** The texts that a regular expression of the schema matches. */
  pattern(source: string, matching: Matching, keyword: string, automata: Automata): Automaton {
    Object.assign(this.work, this.place(keyword));
    try {
      return patternAutomaton(source, matching, automata);
    } catch (error) {
      if (!(error instanceof PatternError)) throw error;
      const sentence = `in the pattern ${JSON.stringify(source)}, at offset ${error.offset}, ${error.message}`;
      if (error.isInvalid) throw this.wrong(keyword, sentence);
      throw this.unsupported(keyword, sentence);
    }
  }
}
