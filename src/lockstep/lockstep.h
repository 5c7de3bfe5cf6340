// Lockstep as a library: all of it that a program needs, in the order to read it.
//
//   run it        run_ranks()       lockstep/ranks.h         ranks as processes
//                 run_simulated()   transport/simulated/simulated.h    ranks as actors, in virtual
//                 time
//   a rank sees   Rank              transport/rank.h         peers, clock, random numbers
//                 Transport         transport/transport.h    messages and windows
//                 own_channel()     transport/channels.h     tags that the library leaves to you
//   average       Averager          lockstep/averager.h      for a training loop that exists
//   already
//                 all_reduce_named  collectives/all_reduce.h any collective, on any numbers
//                 broadcast         collectives/broadcast.h
//   train         TrainConfig       train/config.h           the flags of `lockstep train`
//                 Experiment        train/experiment.h       the data, and who reads what
//                 train()           train/trainer.h          the training loop, one rank's part
//   invent        Strategy          strategies/strategy.h    how replicas are kept in step
//                 StrategyRow       strategies/registry.h    what is known before one is made
//                 Statement         strategies/statement.h   what the audit holds it to: in step
//                 ExchangeProofs    strategies/audit/mix_audit.h  the same: workers that go apart
//                 RoundStrategy     strategies/rounds/round_strategy.h  one that goes in rounds
//                 Mean              strategies/mean.h        an average, as the run takes it
//                 shares_of()       strategies/average.h     what each worker's samples count for
//
// Errors are core/error.h's: catch lockstep::Error to print what() (run_ranks() does). No header
// here includes LibTorch's: who passes tensors includes <torch/torch.h>.
#pragma once

#include "collectives/all_reduce.h"
#include "collectives/broadcast.h"
#include "collectives/scratch.h"
#include "lockstep/averager.h"
#include "lockstep/ranks.h"
#include "strategies/audit/mix_audit.h"
#include "strategies/average.h"
#include "strategies/mean.h"
#include "strategies/registry.h"
#include "strategies/rounds/round_strategy.h"
#include "strategies/statement.h"
#include "strategies/strategy.h"
#include "train/trainer.h"
#include "transport/channels.h"
#include "transport/simulated/simulated.h"
