export { filtered as keptBy } from './sample.js';
