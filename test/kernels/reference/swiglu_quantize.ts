export { swiglu as swigluQuantize } from './swiglu.js';
