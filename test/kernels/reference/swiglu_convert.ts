export { swiglu as swigluConvert } from './swiglu.js';
