import { describeShapes } from './turns.js';

const ROME = '{"place": "Rome"}';
const rome = { name: 'weather', args: ROME };
const clock = { name: 'clock', args: '{}' };

describeShapes(
  'calls of Functionary 3.1',
  { tools: 'functionary' },
  {
    'no call': { text: 'a < b, <function> of b', content: 'a < b, <function> of b' },
    'one call': { text: `<function=weather>${ROME}</function>`, calls: [rome] },
    'several calls': {
      text: `<function=weather>${ROME}</function>\n<function=clock>{}</function>`,
      calls: [rome, clock],
    },
    'text before a call': { text: `I look.<function=weather>${ROME}</function>`, content: 'I look.', calls: [rome] },
    'markup in a string': {
      text: '<function=weather>{"place": "</function><function="}</function>',
      calls: [{ name: 'weather', args: '{"place": "</function><function="}' }],
    },
    'a name without arguments': { text: '<function=weather>', content: '<function=weather>' },
    'arguments that are no object': { text: '<function=weather>Rome', content: '<function=weather>Rome' },
    'arguments that are cut': {
      text: '<function=weather>{"place": "Ro',
      calls: [{ name: 'weather', args: '{"place": "Ro', isCut: true }],
    },
  },
);
