// The house rules that a program can check. A rule goes from one file to its complaints, each of
// which says where and what: "src/core/a.cpp:7: 104 columns".
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep {

struct SourceFile {
  std::string path;  // from the root of the repository: "src/core/rng.h"
  std::string text;

  bool in_src() const { return path.starts_with("src/"); }
  bool is_header() const { return path.ends_with(".h"); }
  // "core" for src/core/rng.h, and for what lies deeper in src/core/.
  std::string folder() const { return name().substr(0, name().find('/')); }
  // How others include it: "core/rng.h".
  std::string name() const { return path.substr(path.find('/') + 1); }
};

using Complaints = std::vector<std::string>;

// Includes point left along the folders, see src/README.md.
Complaints include_direction(const SourceFile&);
// LibTorch only in the folders that hold it.
Complaints no_libtorch(const SourceFile&);
// Threads, clocks and sockets would tie a folder to the real world; getenv hides an input.
Complaints two_worlds(const SourceFile&);
// At most 600 lines a file, 100 columns a line and 60 lines a function.
Complaints sizes(const SourceFile&);
// Starts with a comment or its own header; headers have #pragma once.
Complaints opening(const SourceFile&);
// A tag with a number stands in transport/channels.h, where no two can meet; tests may make theirs.
Complaints tags_in_one_place(const SourceFile&);
// No notes of what is still to be done.
Complaints no_leftovers(const SourceFile&);
// A test writes where no other one does: what it makes in the folder for temporary files has a
// name of its own.
Complaints no_fixed_folders(const SourceFile&);
// Headers that nobody but their own .cpp includes, from src/ or from beside.
Complaints orphans(const std::vector<SourceFile>&);
// Two types of one name in one namespace of src/: two files that see one each would make an
// undefined program. Types in unnamed namespaces may share a name among them, but not with one that
// is named.
Complaints defined_once(const std::vector<SourceFile>&);

}  // namespace lockstep
