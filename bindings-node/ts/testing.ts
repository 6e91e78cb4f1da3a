/**
 * For tests: a clock that moves when told to, and the contract that every backend is held to.
 *
 * @packageDocumentation
 */

export {
  backendCases,
  type CheckedCase,
  CheckFailedError,
  type CheckOptions,
  type CheckReport,
  checkBackend,
} from './check';
export { ManualClock } from './clock';
