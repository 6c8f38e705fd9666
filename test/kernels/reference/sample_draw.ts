export { acceptableSamples as acceptableDraws } from './sample.js';
