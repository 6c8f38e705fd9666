import type { GgufMetadata } from '../../lib/gguf/metadata.js';
import { Budget, type WorkLimits } from '../../lib/jinja/budget.js';
import { TemplateError } from '../../lib/jinja/errors.js';
import { strftime } from '../../lib/jinja/globals.js';
import { toJson } from '../../lib/jinja/json.js';
import { Template } from '../../lib/jinja/template.js';
import { Dict, list, Sequence, UNPRINTABLE_NONE, type Value } from '../../lib/jinja/values.js';
import { checkWellFormed, type Tokenizer } from '../../lib/tokenizer/tokenizer.js';
import { RocmForgeError } from '../../shared/errors.js';
import { joinsFunctions, mentionsTools } from './answer/answer-format.js';
import { type ChatPrompt, InjectionGuard } from './injection-guard.js';
import { shownInstructions } from './instruction-turns.js';
import { missingChatTemplate } from './missing-chat-template.js';
import { continuedPrompt, markedEnd } from './prefill.js';
import { withKnownEffort } from './template-effort.js';
import {
  type Conversation,
  doesAll,
  onlyCalls,
  PROBE_TOOLS,
  type TemplateInput,
  templateVariables,
  toTemplateInput,
  withProtocolWords,
} from './template-input.js';
import { TemplateProbe } from './template-probe.js';
import { hasToolTurns, withoutToolTurns } from './tools-fallback.js';

export type { ChatMessage, ChatTool, ChatToolCall, Conversation } from './template-input.js';

/** Source of the chat template, as the operator has it. */
export interface TemplateSettings {
  /** Takes the place of the templates of the model file. */
  readonly source?: string | undefined;
  /** A JSON object of variables that conversations have where they give none of the name. */
  readonly variablesJson?: string | undefined;
  /** True if templates are told the date, as `date_string` ("26 Jul 2024") and `datetime` ("Jul 26 2024"), as llama.cpp does; default: no. */
  readonly tellsDate?: boolean | undefined;
  /** True if tools are described in a text to templates that know of none; default: no. See `tools-fallback.ts`. */
  readonly describesTools?: boolean | undefined;
}

export interface ChatTemplateOptions extends TemplateSettings {
  /** The time that templates write into prompts; default: the clock's. */
  readonly now?: () => Date;
}

/** The chat template of a model: a conversation in, one prompt out. */
export class ChatTemplate {
  private readonly guard: InjectionGuard;
  private readonly source: string | undefined;
  private readonly toolSource: string | undefined;
  private readonly compiled = new Map<string, Template | TemplateError>();
  private readonly probes = new Map<string, TemplateProbe>();
  private readonly tokens: readonly (readonly [name: 'bos_token' | 'eos_token', text: string])[];
  private readonly now: () => Date;
  private readonly defaults: Dict;
  private readonly tellsDate: boolean;
  private readonly describesTools: boolean;

  /**
   * Never throws for a missing or broken template: a model without one still completes text.
   *
   * @throws RocmForgeError `INVALID_FIELD` for variables that no conversation may have
   */
  constructor(metadata: GgufMetadata, tokenizer: Tokenizer, options: ChatTemplateOptions = {}) {
    this.guard = new InjectionGuard(tokenizer.markerTexts());
    this.source = options.source ?? metadata.string('tokenizer.chat_template');
    this.toolSource = options.source ?? metadata.string('tokenizer.chat_template.tool_use');
    const name = (id: number | undefined) => (id === undefined ? '' : tokenizer.tokenText(id));
    this.tokens = [
      ['bos_token', name(tokenizer.bosId)],
      ['eos_token', name(tokenizer.eosId)],
    ];
    this.now = options.now ?? (() => new Date());
    this.defaults = templateVariables({ templateVariablesJson: options.variablesJson });
    this.tellsDate = options.tellsDate ?? false;
    this.describesTools = options.describesTools ?? false;
  }

  /** @throws TemplateError where the template cannot be read */
  check(): void {
    if (this.source !== undefined) this.compile(this.source);
  }

  /** True if the model file has a template. */
  get isAvailable(): boolean {
    return this.source !== undefined || this.toolSource !== undefined;
  }

  /**
   * Renders a conversation. Names of control tokens in anything a user supplied stay plain text.
   *
   * @throws RocmForgeError `CHAT_TEMPLATE_MISSING`; `CHAT_TEMPLATE_FAILED` with the template's own words, or for one that
   *   does more work than a conversation of this size is worth; `INVALID_FIELD` for an unknown role, a lone surrogate or
   *   arguments that are no JSON
   */
  render(conversation: Conversation): ChatPrompt {
    if (!this.describesTools || !hasToolTurns(conversation) || mentionsTools(this.sourceFor(conversation))) {
      return this.renderShown(conversation);
    }
    // Some templates have no place for instructions.
    try {
      return this.renderShown(withoutToolTurns(conversation, 'system'));
    } catch (error) {
      if (!(error instanceof RocmForgeError)) throw error;
      return this.renderShown(withoutToolTurns(conversation, 'user'));
    }
  }

  private renderShown(conversation: Conversation): ChatPrompt {
    const { messages } = conversation;
    const isContinued = conversation.continueFinalMessage && messages.at(-1)?.content !== '';
    const addGenerationPrompt = !isContinued && (conversation.addGenerationPrompt ?? true);
    // An empty beginning leaves the whole turn to the model.
    const isEmptyBeginning = conversation.continueFinalMessage && !isContinued;
    const begun = {
      ...conversation,
      messages: isEmptyBeginning ? messages.slice(0, -1) : messages,
      addGenerationPrompt,
    };
    const shown = { ...begun, messages: this.shown(begun) };
    return isContinued ? this.renderBegun(shown) : this.renderTurns(shown);
  }

  /** The turns in a form in which the template drops no system or developer turn. */
  private shown(conversation: Conversation): Conversation['messages'] {
    const render = (messages: Conversation['messages']) => this.renderTurns({ ...conversation, messages }).text;
    const sentinel = () => this.guard.chooseSentinel(conversation.messages.map(({ content }) => content));
    return shownInstructions(conversation.messages, this.probeFor(conversation), render, sentinel);
  }

  /** The final turn is rendered as one that has ended, and cut behind its content. */
  private renderBegun(conversation: Conversation): ChatPrompt {
    const { messages } = conversation;
    const last = messages.at(-1)!;
    checkWellFormed(last.content, 'chat.messages');
    const mark = this.guard.chooseSentinel([this.sourceFor(conversation), ...messages.map(({ content }) => content)]);
    const marked = { ...last, content: markedEnd(last.content, mark) };
    return continuedPrompt(this.renderTurns({ ...conversation, messages: [...messages.slice(0, -1), marked] }), mark);
  }

  private renderTurns(conversation: Conversation): ChatPrompt {
    const { messages } = conversation;
    // gpt-oss fails on a turn that thinks, speaks and calls, and clients send back what they got: what was thought is the
    // least of it.
    const withoutThoughts = messages.some(doesAll) && {
      ...conversation,
      messages: messages.map((message) => (doesAll(message) ? { ...message, reasoning: '' } : message)),
    };
    const render = (): ChatPrompt => this.renderCalls(conversation);
    return withoutThoughts ? renderOr(render, () => this.renderCalls(withoutThoughts)) : render();
  }

  /** Renders and encodes, with exactly one BOS where the model wants one. Errors as {@link render}. */
  encode(conversation: Conversation, tokenizer: Tokenizer): Int32Array {
    const { text, breaks } = this.render(conversation);
    return tokenizer.encodePrompt(text, { parseSpecial: true, addSpecial: true, breaks });
  }

  private renderCalls(conversation: Conversation): ChatPrompt {
    const withEmpty = (): ChatPrompt => this.renderWith(conversation, '');
    if (!conversation.messages.some(onlyCalls)) return withEmpty();
    // Clients send no content beside calls. Some templates write calls only where it is none (DeepSeek), others fail on
    // it or would print "None" (Qwen 3, gpt-oss): these get an empty one.
    return renderOr(() => this.renderWith(conversation, UNPRINTABLE_NONE), withEmpty);
  }

  private renderWith(conversation: Conversation, absentContent: Value): ChatPrompt {
    const source = this.sourceFor(conversation);
    const input = toTemplateInput(conversation, { probe: this.probeFor(conversation), absentContent });
    const named = Dict.of([...this.defaults.entries(), ...templateVariables(conversation).entries()]);
    const given = withKnownEffort(named, source);
    const strings = [...stringsOf([...input.messages, ...input.tools, given])];
    for (const text of strings) checkWellFormed(text, 'chat.messages');
    const sentinel = this.guard.chooseSentinel([source, ...strings]);
    const limits = limitsFor(strings);
    const now = this.now();
    const render = (borders: boolean) => {
      const mark = (dict: Dict) => this.guard.mark(dict, sentinel, { borders }) as Dict;
      const marked = { ...input, messages: input.messages.map(mark), tools: input.tools.map(mark) };
      const variables = [...mark(given).entries()] as (readonly [string, Value])[];
      const rendered = this.run(
        source,
        marked,
        [...variables, ['add_generation_prompt', conversation.addGenerationPrompt ?? true]],
        limits,
        now,
      );
      return this.guard.unmark(rendered, sentinel);
    };
    const prompt = render(false);
    // Marking the ends of the strings as well keeps a name from being put together out of a template's and a user's
    // parts. A template that looks at the ends ("startswith") renders something else then: its word counts.
    const bordered = valueOrUndefined(() => render(true));
    return bordered?.text === prompt.text ? bordered : prompt;
  }

  /** Treatment of turns by a conversation's template; found by rendering, once for each template. */
  private probeFor(conversation: Conversation): TemplateProbe {
    const source = this.sourceFor(conversation);
    const tools = (conversation.tools ?? []).length > 0 ? PROBE_TOOLS : [];
    const key = `${tools.length} ${source}`;
    const known = this.probes.get(key);
    if (known !== undefined) return known;
    const now = this.now();
    const variables: (readonly [string, Value])[] = [...this.defaults.entries()] as (readonly [string, Value])[];
    const given = [...variables, ['add_generation_prompt', true] as const];
    const probe = new TemplateProbe((input) => {
      try {
        return this.run(source, input, given, PROBE_LIMITS, now);
      } catch (error) {
        if (error instanceof RocmForgeError || error instanceof TemplateError) return undefined;
        throw error;
      }
    }, tools);
    this.probes.set(key, probe);
    return probe;
  }

  private sourceFor(conversation: Conversation): string {
    const { tools = [] } = conversation;
    const source = (tools.length > 0 ? this.toolSource : undefined) ?? this.source ?? this.toolSource;
    if (source !== undefined) return source;
    throw missingChatTemplate();
  }

  private run(
    source: string,
    input: TemplateInput,
    given: readonly (readonly [string, Value])[],
    limits: WorkLimits,
    now: Date,
  ): string {
    const variables = new Map<string, Value>([
      ...this.tokens,
      ...withProtocolWords(input),
      ...functionsText(source, input, limits),
      ...this.dates(now),
      ...given,
    ]);
    try {
      return this.compile(source).render(variables, { limits, now });
    } catch (error) {
      if (!(error instanceof TemplateError)) throw error;
      const message = `the chat template failed: ${error.message}`;
      throw new RocmForgeError('CHAT_TEMPLATE_FAILED', message, {}, { cause: error });
    }
  }

  private dates(now: Date): readonly (readonly [string, Value])[] {
    if (!this.tellsDate) return [];
    return [
      ['date_string', strftime('%d %b %Y', now)],
      ['datetime', strftime('%b %d %Y', now)],
    ];
  }

  /** A template that cannot be read is not read again for every request. */
  private compile(source: string): Template {
    let compiled = this.compiled.get(source);
    if (compiled === undefined) {
      compiled = valueOrTemplateError(() => new Template(source));
      this.compiled.set(source, compiled);
    }
    if (compiled instanceof TemplateError) throw compiled;
    return compiled;
  }
}

/** The tools as a text, for a template that joins "functions" to other texts, as Firefunction's does. */
function functionsText(
  source: string,
  { tools }: TemplateInput,
  limits: WorkLimits,
): readonly (readonly [string, Value])[] {
  if (!joinsFunctions(source)) return [];
  const functions = list(tools.map((tool) => tool.get('function') as Value));
  const style = { ensureAscii: false, indent: '    ', itemSeparator: ',', keySeparator: ': ', sortKeys: false };
  return [['functions', toJson(functions, style, new Budget(limits))]];
}

/** Budget of a template for one of the short conversations that it is probed with. */
const PROBE_LIMITS: WorkLimits = { steps: 2_000_000, units: 4_000_000 };

/**
 * Budget of a template for a conversation: real ones take up to 300 steps a message and touch each text ten times, some
 * look at all messages again for each, which the constants allow for 1,000 messages. 2 × 10^7 steps are half a second.
 */
function limitsFor(strings: readonly string[]): WorkLimits {
  const size = strings.reduce((units, text) => units + text.length + 32, 0);
  return { steps: 20_000_000 + 4 * size, units: 16_000_000 + 32 * size };
}

function* stringsOf(values: readonly Value[]): Generator<string> {
  for (const value of values) {
    if (typeof value === 'string') yield value;
    else if (value instanceof Sequence) yield* stringsOf(value.items);
    else if (value instanceof Dict) {
      yield* stringsOf(value.keys());
      yield* stringsOf(value.values());
    }
  }
}

/** Result of a template for a conversation, or, if it fails, for another form of it; its failure if that fails, too. */
function renderOr(render: () => ChatPrompt, otherwise: () => ChatPrompt): ChatPrompt {
  try {
    return render();
  } catch (error) {
    if (!(error instanceof RocmForgeError) || error.reason !== 'CHAT_TEMPLATE_FAILED') throw error;
    const other = valueOrUndefined(otherwise);
    if (other === undefined) throw error;
    return other;
  }
}

function valueOrTemplateError(make: () => Template): Template | TemplateError {
  try {
    return make();
  } catch (error) {
    if (error instanceof TemplateError) return error;
    throw error;
  }
}

function valueOrUndefined<T>(compute: () => T): T | undefined {
  try {
    return compute();
  } catch {
    return undefined;
  }
}
