import type { Message } from '../chat/conversation.js';
import { durationText } from '../markdown/marked-text.js';
import { models } from '../server/server-store.js';

/** The numbers of an answer. */
export function StatsLine({ message: { stats, model, marks } }: { readonly message: Message }) {
  if (stats === undefined) return null;
  const { promptTokens, cachedTokens, tokens, reasoningTokens, tokensPerSecond, firstTokenMs, drafted, accepted } =
    stats;
  const context = models.value.find(({ id }) => id === model)?.max_model_len;
  const used = promptTokens + tokens;
  const entries: (readonly [name: string, value: string])[] = [
    ['Speed', `${tokensPerSecond.toFixed(1)} tokens/s`],
    ['Tokens', `${tokens} tokens${reasoningTokens > 0 ? `, ${reasoningTokens} of reasoning` : ''}`],
    ['Time to first token', `${durationText(firstTokenMs)} to first token`],
    ['Context', context === undefined ? `${used} of the context` : `${used} of ${context} (context)`],
  ];
  if (cachedTokens > 0) entries.push(['Prefix cache', `${cachedTokens} of ${promptTokens} prompt tokens cached`]);
  if (drafted > 0) entries.push(['Speculation', `${accepted} of ${drafted} draft tokens accepted`]);
  if (marks.length > 0)
    entries.push(['Recoveries', `${marks.length} ${marks.length === 1 ? 'recovery' : 'recoveries'}`]);
  return (
    <dl class="stats">
      {entries.map(([name, value]) => (
        <div key={name}>
          <dt class="visually-hidden">{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
