import { fail } from './errors.js';
import { equals } from './operators.js';
import { type Arguments, Callable, HostObject, list, Undefined, type Value } from './values.js';

/** The variable `loop`. */
export class LoopContext extends HostObject {
  readonly typeName = 'LoopContext';
  /** Index of the item that is visited. */
  index = 0;
  private lastChecked: Value | undefined;

  constructor(
    private readonly items: readonly Value[],
    private readonly depth: number,
    override readonly call: ((args: Arguments) => Value) | undefined,
  ) {
    super();
  }

  override attribute(name: string): Value | undefined {
    const { index, items } = this;
    switch (name) {
      case 'index':
        return index + 1;
      case 'index0':
        return index;
      case 'revindex':
        return items.length - index;
      case 'revindex0':
        return items.length - index - 1;
      case 'first':
        return index === 0;
      case 'last':
        return index === items.length - 1;
      case 'length':
        return items.length;
      case 'depth':
        return this.depth + 1;
      case 'depth0':
        return this.depth;
      case 'previtem':
        return items[index - 1] ?? new Undefined('there is no previous item');
      case 'nextitem':
        return items[index + 1] ?? new Undefined('there is no next item');
      case 'cycle':
        return new Callable('cycle', ({ positional }) =>
          positional.length === 0 ? fail('no items for cycling given') : positional[index % positional.length]!,
        );
      case 'changed':
        return new Callable('changed', ({ positional, budget }) => {
          const value = list(positional);
          const isNew = this.lastChecked === undefined || !equals(value, this.lastChecked, budget);
          this.lastChecked = value;
          return isNew;
        });
      default:
        return undefined;
    }
  }
}
