import type { Automata, Automaton } from '../automata.js';
import type { Budget } from '../budget.js';
import { CONSTRAINT_LIMITS } from '../limits.js';
import type { Matching } from '../pattern-automaton.js';
import { arrayShape, objectShape } from './containers.js';
import type { SchemaDocument, SchemaNode } from './document.js';
import { complaintOf, isAnnotation, NULLABLE } from './keywords.js';
import { negated } from './negate.js';
import { NumberAutomata } from './numbers.js';
import { Reading } from './reading.js';
import { constantShape, scalarShape } from './scalars.js';
import {
  ANY_VALUE,
  type Conjunction,
  isNever,
  itemAt,
  keyOf,
  type Literal,
  NO_VALUE,
  type Shape,
  Shapes,
  valueAt,
} from './shape.js';
import { withUnevaluated } from './unevaluated.js';

/** Depth to which two schemas are compared to prove that they have no value in common. */
const COMPARED_DEPTH = 4;
/** Schemas that are opened within one another, in place. */
const MOST_OPEN = 200;
/** With annotations in play, each subset of anyOf's branches is an alternative of its own. */
const MOST_BRANCHES_WITH_ANNOTATIONS = 5;

/** Turns schemas into shapes, each once. What it says of nested values stays conjunctions: references may be recursive. */
export class Expansion {
  readonly work: Budget;
  readonly shapes: Shapes;
  readonly numbers: NumberAutomata;
  readonly #known = new Map<string, Shape>();
  readonly #open = new Set<string>();
  readonly #patterns = new Map<string, Automaton>();

  constructor(
    readonly document: SchemaDocument,
    readonly automata: Automata,
  ) {
    this.work = automata.work;
    this.numbers = new NumberAutomata(automata);
    this.shapes = new Shapes(this.numbers, automata, CONSTRAINT_LIMITS.alternatives, document.hasUnevaluated);
  }

  /** The values that satisfy all literals. */
  shapeOf(conjunction: Conjunction): Shape {
    return this.#once(keyOf(conjunction), () =>
      this.shapes.intersection(...conjunction.map((literal) => this.literal(literal))),
    );
  }

  literal({ node, isNegated }: Literal): Shape {
    return isNegated ? this.not(node) : this.of(node);
  }

  /** The values that a schema allows. */
  of(node: SchemaNode): Shape {
    if (typeof node.schema === 'boolean') return node.schema ? ANY_VALUE : NO_VALUE;
    return this.#once(`+${node.id}`, () => this.#positive(node), node);
  }

  /** The values that a schema does not allow. What it names is not evaluated by it. */
  not(node: SchemaNode): Shape {
    if (typeof node.schema === 'boolean') return node.schema ? NO_VALUE : ANY_VALUE;
    return this.#once(`-${node.id}`, () => unannotated(negated(this.reading(node), this)), node);
  }

  reading(node: SchemaNode): Reading {
    const reading = new Reading(node, this.work);
    Object.assign(this.work, { at: node.at, keyword: '' });
    for (const keyword of Object.keys(reading.schema)) {
      const complaint = complaintOf(keyword);
      if (complaint !== undefined) throw reading.unsupported(keyword, complaint);
    }
    return reading;
  }

  pattern(reading: Reading, source: string, matching: Matching, keyword: string): Automaton {
    const key = `${matching} ${source}`;
    const found = this.#patterns.get(key) ?? reading.pattern(source, matching, keyword, this.automata);
    this.#patterns.set(key, found);
    return found;
  }

  #once(key: string, make: () => Shape, node?: SchemaNode): Shape {
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    if (this.#open.has(key) && node !== undefined) {
      const reading = new Reading(node, this.work);
      throw reading.unsupported('$ref', 'it refers to itself without anything in between');
    }
    if (this.#open.size > MOST_OPEN) this.work.exceed(`more than ${MOST_OPEN} references lead from one to the next`);
    this.#open.add(key);
    const shape = make();
    this.#open.delete(key);
    this.#known.set(key, shape);
    return shape;
  }

  #positive(node: SchemaNode): Shape {
    const reading = this.reading(node);
    const parts: Shape[] = [];
    if (reading.has('$ref') && this.document.isLegacy) return this.of(this.#legacyReference(reading));
    for (const keyword of ['$ref', '$dynamicRef'] as const) {
      if (reading.has(keyword)) parts.push(this.of(this.document.target(node, keyword)));
    }
    parts.push(scalarShape(reading, this), constantShape(reading, this));
    parts.push(arrayShape(reading, this), ...objectShape(reading, this));
    for (const branch of this.branches(reading, 'allOf')) parts.push(this.of(branch));
    if (reading.has('anyOf')) parts.push(this.#anyOf(reading));
    // Cheap and narrow ones first: what they leave out needs no multiplying.
    const beside = this.shapes.intersection(...parts);
    const costly: Shape[] = [];
    if (reading.has('oneOf')) costly.push(this.#oneOf(reading, beside));
    if (reading.has('not')) costly.push(this.not(this.document.child(node, 'not')));
    if (reading.has('if')) costly.push(this.#conditional(reading));
    return withUnevaluated(reading, this.shapes.intersection(beside, ...costly), this);
  }

  /** Until draft-07, `$ref` hid what was beside it; whoever wrote it there meant it. */
  #legacyReference(reading: Reading): SchemaNode {
    const beside = Object.keys(reading.schema).find(isConstraining);
    if (beside !== undefined) {
      throw reading.unsupported(beside, `in this draft ${beside} means nothing beside $ref; put both into allOf`);
    }
    return this.document.target(reading.node, '$ref');
  }

  branches(reading: Reading, keyword: 'allOf' | 'anyOf' | 'oneOf'): SchemaNode[] {
    return reading.list(keyword).map((_, index) => this.document.child(reading.node, keyword, index));
  }

  #anyOf(reading: Reading): Shape {
    const branches = this.branches(reading, 'anyOf');
    if (!this.document.hasUnevaluated) return this.shapes.union(...branches.map((branch) => this.of(branch)));
    if (branches.length > MOST_BRANCHES_WITH_ANNOTATIONS) {
      const sentence = `it has more than ${MOST_BRANCHES_WITH_ANNOTATIONS} branches in a schema with unevaluated properties or items`;
      throw reading.unsupported('anyOf', sentence);
    }
    const subsets = Array.from({ length: 2 ** branches.length - 1 }, (_, subset) =>
      branches.filter((_branch, index) => ((subset + 1) >> index) & 1),
    );
    return this.shapes.union(
      ...subsets.map((subset) => this.shapes.intersection(...subset.map((branch) => this.of(branch)))),
    );
  }

  /**
   * Each branch without what another one allows too.
   *
   * @param beside the values that the other keywords allow: the property by which branches differ is often required there
   */
  #oneOf(reading: Reading, beside: Shape): Shape {
    const branches = this.branches(reading, 'oneOf');
    return this.shapes.union(
      ...branches.map((branch, index) => {
        const others = branches.filter((other, at) => at !== index && !this.areDisjoint(branch, other, beside));
        return this.shapes.intersection(this.of(branch), ...others.map((other) => this.not(other)));
      }),
    );
  }

  #conditional(reading: Reading): Shape {
    const { node } = reading;
    if (!reading.has('then') && !reading.has('else') && !this.document.hasUnevaluated) return ANY_VALUE;
    const condition = this.document.child(node, 'if');
    const branch = (keyword: 'then' | 'else') =>
      reading.has(keyword) ? this.of(this.document.child(node, keyword)) : ANY_VALUE;
    return this.shapes.union(
      this.shapes.intersection(this.of(condition), branch('then')),
      this.shapes.intersection(this.not(condition), branch('else')),
    );
  }

  /** True if it is proven that the schemas have no value in common among those of a shape. */
  areDisjoint(a: SchemaNode, b: SchemaNode, among: Shape): boolean {
    return !this.mayHold(this.shapes.intersection(this.of(a), this.of(b), among), COMPARED_DEPTH);
  }

  /** False only where it is proven that no value has this shape. */
  mayHold({ constants, numbers, strings, arrays, objects }: Shape, depth: number): boolean {
    if (constants.size + numbers.length + strings.length > 0) return true;
    const isPossible = (conjunction: Conjunction): boolean => {
      if (isNever(conjunction)) return false;
      if (depth === 0 || this.#open.has(keyOf(conjunction))) return true;
      if (conjunction.some((literal) => this.#open.has(`${literal.isNegated ? '-' : '+'}${literal.node.id}`)))
        return true;
      return this.mayHold(this.shapeOf(conjunction), depth - 1);
    };
    return (
      arrays.some((array) => {
        const needed = Math.min(array.min, array.prefix.length + 1);
        return Array.from({ length: needed }, (_, index) => itemAt(array, index)).every(isPossible);
      }) || objects.some((object) => [...object.required].every((name) => isPossible(valueAt(object, name))))
    );
  }
}

const isConstraining = (keyword: string) =>
  !isAnnotation(keyword) &&
  keyword !== NULLABLE &&
  keyword !== 'definitions' &&
  keyword !== '$defs' &&
  keyword !== '$ref';

/** The same values; for unevaluatedProperties and -Items, nothing was looked at. */
function unannotated(shape: Shape): Shape {
  const objects = shape.objects.map((object) => ({
    ...object,
    layers: object.layers.map((layer) => (layer.evaluates ? { ...layer, evaluates: false } : layer)),
  }));
  return {
    ...shape,
    objects,
    arrays: shape.arrays.map((array) => (array.evaluated > 0 ? { ...array, evaluated: 0 } : array)),
  };
}
