export { splitParts as attentionCombineQuantize } from '../support/splits.js';
