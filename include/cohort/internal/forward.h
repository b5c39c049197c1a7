#pragma once

// The classes behind the public ones, which are defined in .cc files. Not for inclusion by users.

namespace cohort::internal {
class CheckpointFiles;
class CheckpointImpl;
class CheckpointManagerImpl;
struct CollectiveAccess;
class CollectiveGroup;
class CoordinatorState;
struct DistributedInput;
class DistributedInputIterator;
class EventFile;
struct GraphAccess;
class GraphImpl;
struct ModuleAccess;
struct ModuleState;
class MonitoredSessionImpl;
class NcclGroups;
class PackMemory;
class PartialRunState;
class ReplicaRendezvous;
struct RestoreState;
class SaverImpl;
struct ScopeState;
class SessionImpl;
class SessionManager;
struct StrategyImpl;
struct SyncReplicas;
class Tape;
class TaskServer;
struct TensorAccess;
struct TensorBody;
class Thread;
class TorchState;
struct Tracked;
class TrainerImpl;
struct VariableAccess;
class VariableImpl;
}  // namespace cohort::internal

namespace cohort::data::internal {
struct DatasetAccess;
struct ElementAccess;
class IteratorBase;
class Node;
struct Structure;
}  // namespace cohort::data::internal

namespace cohort::optim::internal {
struct OptimizerAccess;
struct OptimizerState;
struct Rule;
}  // namespace cohort::optim::internal
