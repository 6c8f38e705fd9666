export { acceptableSamples as acceptablePicks } from './sample.js';
