import { Dict, list, NONE, type Value } from '../../lib/jinja/values.js';
import type { TemplateInput } from './template-input.js';

/** Renders turns with the template; undefined where it fails. */
export type ProbeRender = (input: TemplateInput) => string | undefined;

/** Texts that occur in no template. */
const SYSTEM = 'probe-of-system-turn';
const FUNCTION = 'probe_of_function';
const KEY = 'probe_of_key';
const VALUE = 'probe-of-value';
const RESULT = 'probe-of-result';
const UNKNOWN_ROLE = 'probe-role';
const ARGUMENTS_JSON = `{"${KEY}": "${VALUE}"}`;
const LONG_ID = 'call_0a1b2c3d4e5f6a7b8c9d0e1f';
const NINE_CHARACTERS = '0a1b2c3d4';

type Turn = readonly [role: string, fields: Readonly<Record<string, Value>>];

/**
 * A chat template's treatment of turns that templates treat differently, found by rendering short conversations whose texts
 * are known. Each property is found once, at its first use.
 */
export class TemplateProbe {
  private readonly found = new Map<string, unknown>();

  /**
   * @param render renders with the template
   * @param tools  tools that the conversations have; templates may treat system turns differently beside them
   */
  constructor(
    private readonly render: ProbeRender,
    private readonly tools: readonly Dict[],
  ) {}

  /**
   * True if content must be a list of parts, as templates of models that see have it: a text vanishes in their loop over
   * the parts.
   */
  get needsContentParts(): boolean {
    return this.once('needsContentParts', () => {
      const shows = (hasContentParts: boolean) =>
        this.renderTurns([USER], hasContentParts)?.includes(USER_TEXT) ?? false;
      return !shows(false) && shows(true);
    });
  }

  /** True if a system turn at the start vanishes without an error. */
  get dropsSystem(): boolean {
    return this.once('dropsSystem', () => {
      const rendered = this.renderTurns([['system', { content: SYSTEM }], USER]);
      return rendered !== undefined && !rendered.includes(SYSTEM);
    });
  }

  /** True if the template has a form of its own for developer turns, not the one for any role that it does not know. */
  get knowsDeveloper(): boolean {
    return this.once('knowsDeveloper', () => {
      const of = (role: string) => this.renderTurns([[role, { content: SYSTEM }], USER])?.toLowerCase();
      const [developer, unknown] = [of('developer'), of(UNKNOWN_ROLE)];
      if (developer === undefined || !developer.includes(SYSTEM)) return false;
      return unknown?.replaceAll(UNKNOWN_ROLE, 'developer') !== developer;
    });
  }

  /** True if the arguments of calls must be their JSON as text: as an object they fail, or are not rendered as JSON. */
  get takesArgumentsAsText(): boolean {
    return this.once('takesArgumentsAsText', () => {
      const asObject = this.renderCall(Dict.of([[KEY, VALUE]]), NINE_CHARACTERS);
      const asText = this.renderCall(ARGUMENTS_JSON, NINE_CHARACTERS);
      if (asText === undefined) return false;
      if (asObject === undefined || !asObject.includes(VALUE)) return asText.includes(ARGUMENTS_JSON);
      // Python's form of a dict is what a template prints that pastes its arguments.
      return asObject.includes(`{'${KEY}': '${VALUE}'}`) && asText.includes(ARGUMENTS_JSON);
    });
  }

  /** True if the arguments of calls must be an object: text in their place fails, or vanishes. */
  get needsArgumentsAsObject(): boolean {
    return this.once('needsArgumentsAsObject', () => {
      const asText = this.renderCall(VALUE, NINE_CHARACTERS);
      return !this.takesArgumentsAsText && !asText?.includes(VALUE);
    });
  }

  /** True if ids of calls must have nine letters or digits, as Mistral's do. */
  get needsNineCharacterIds(): boolean {
    return this.once('needsNineCharacterIds', () => {
      const args = this.takesArgumentsAsText ? ARGUMENTS_JSON : Dict.of([[KEY, VALUE]]);
      return this.renderCall(args, LONG_ID) === undefined && this.renderCall(args, NINE_CHARACTERS) !== undefined;
    });
  }

  /** A call and its result; undefined where the template fails on them or does not render the call. */
  private renderCall(args: Value, id: string): string | undefined {
    const call = Dict.of([
      ['id', id],
      [
        'function',
        Dict.of([
          ['name', FUNCTION],
          ['arguments', args],
        ]),
      ],
    ]);
    const result: Turn = ['tool', { content: RESULT, name: FUNCTION, tool_call_id: id }];
    const contents: readonly Value[] = [NONE, ''];
    const caller = (content: Value): Turn => ['assistant', { content, tool_calls: list([call]) }];
    const forms = [
      ...contents.map((content) => [USER, caller(content), result]),
      ...contents.map((content) => [caller(content), result]),
    ];
    for (const turns of forms) {
      const rendered = this.renderTurns(turns);
      if (rendered?.includes(FUNCTION)) return rendered;
    }
    return undefined;
  }

  private renderTurns(turns: readonly Turn[], hasContentParts = this.needsContentParts): string | undefined {
    return this.render({
      roles: turns.map(([role]) => role),
      messages: turns.map(([, fields]) => Dict.of(Object.entries(fields))),
      tools: this.tools,
      hasContentParts,
    });
  }

  private once<T>(name: string, find: () => T): T {
    if (!this.found.has(name)) this.found.set(name, find());
    return this.found.get(name) as T;
  }
}

const USER_TEXT = 'probe-of-user-turn';
const USER: Turn = ['user', { content: USER_TEXT }];
