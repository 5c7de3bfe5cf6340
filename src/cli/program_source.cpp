#include "cli/program_source.h"

#include <lockstep_commit.h>

namespace lockstep {

std::string program_commit() { return LOCKSTEP_COMMIT; }
std::string program_source() { return LOCKSTEP_SOURCE; }

}  // namespace lockstep
