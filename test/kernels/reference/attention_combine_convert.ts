export { splitParts as attentionCombineConvert } from '../support/splits.js';
